import com.sun.management.OperatingSystemMXBean;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;

/** What contenders in Java measure of their own process. */
final class ProcessCosts {
    private static final OperatingSystemMXBean SYSTEM =
            (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    /** User and system time of all threads until now. */
    static long cpuNs() {
        return SYSTEM.getProcessCpuTime();
    }

    /** The peak memory, 0 where the system does not have it. */
    static double peakMb() throws IOException {
        Path status = Path.of("/proc/self/status");
        if (Files.exists(status)) {
            for (String line : Files.readAllLines(status)) {
                if (line.startsWith("VmHWM:")) {
                    return Long.parseLong(line.split("\\s+")[1]) / 1024.0;
                }
            }
        }
        return 0;
    }
}
