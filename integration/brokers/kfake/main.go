// One kfake: `kfake PORT ADVERTISED_PORT` listens at the first port of loopback, tells its clients to come to the
// second one, and ends with its standard input.
package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"strconv"

	"github.com/twmb/franz-go/pkg/kfake"
)

// What clients are told is the address of the listener.
type advertised struct {
	net.Listener
	port int
}

func (listener advertised) Addr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: listener.port}
}

func main() {
	ports := make([]int, 2)
	for index := range ports {
		port, err := strconv.Atoi(os.Args[index+1])
		if err != nil {
			fail(err)
		}
		ports[index] = port
	}
	cluster, err := kfake.NewCluster(
		kfake.NumBrokers(1),
		kfake.Ports(ports[0]),
		kfake.DefaultNumPartitions(1),
		kfake.BrokerConfigs(map[string]string{"group.consumer.heartbeat.interval.ms": "500"}),
		kfake.ListenFn(func(network, address string) (net.Listener, error) {
			listener, err := net.Listen(network, address)
			return advertised{listener, ports[1]}, err
		}),
	)
	if err != nil {
		fail(err)
	}
	defer cluster.Close()
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
