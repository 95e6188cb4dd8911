"""Helpers of the tests.

Clusters, brokers and other servers:
    lab, lab_logs, lab_groups   raw requests in chosen versions to one broker, fake or real
    broker_scenarios            what brokers answer, as scenarios for fake and real ones
    acl_scenarios               the errors of clients without authorization, for fake and real clusters
    zone_scenarios              what brokers in three racks answer, for fake and real ones
    random_requests             random requests of producers, and a broker's answers
    mock_cluster                librdkafka's mock cluster in its own process
    stand_in_java, stand_in_broker  a program in place of `java`, and the broker that it runs
    identity_provider           a token endpoint on loopback
    maven_repository            a Maven repository on loopback
    dead_addresses              addresses where connections are refused

Our objects, made for tests:
    accumulators                an `Accumulator` with metadata from the test
    sequence_model              the producer's core against a model of one partition
    connections, links, clients one connection, one link, one client, with recorded events
    producers, transactions     producers with a clock that the test advances; transactional ones
    sessions, fetchers          sessions, readers and fetchers of members
    classic                     a classic membership, step by step
    metadata_answers            Metadata responses, and a `Metadata` with a predictable backoff
    simulated                   tests in simulated time
    codec_gate                  compression that waits until the test opens it

Data and checks of data:
    messages                    every message in every version
    golden                      messages and batches as JSON, and the golden files
    stored_batches, columns     record batches as logs have them; record columns as plain Python
    arrow                       Arrow data, and objects that export it
    assignments, documented_groups  assignments as text, their checks, and worked examples
    key_order                   records of some keys, and a check of their order
    java_stores                 key and trust stores as Java writes them

Running the tests:
    length                      short and long tests
    builds                        the compiled and the interpreted build in one process
    frozen, bent_timers         tests while their processes are stopped; with imprecise timers
    snippets                    the Python of the documentation
"""
