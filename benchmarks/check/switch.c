/* Lets the program under callgrind say where the measured part begins and ends, each time
   with a profile of its own; does nothing elsewhere. */

#include <valgrind/callgrind.h>

void start(void)
{
    CALLGRIND_START_INSTRUMENTATION;
    CALLGRIND_ZERO_STATS;
}

void stop(void)
{
    CALLGRIND_STOP_INSTRUMENTATION;
    CALLGRIND_DUMP_STATS;
}
