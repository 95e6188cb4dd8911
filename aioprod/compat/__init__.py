"""The calls of other clients, on top of aioprod: `aioprod.compat.aiokafka` has aiokafka's producer."""
