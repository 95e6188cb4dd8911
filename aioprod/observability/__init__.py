"""How monitoring systems see aioprod's clients: Prometheus and OpenTelemetry, each an extra of its own."""
