"""What readers, groups, Admin and transactions share: requests to any broker, a partition's leader or a coordinator."""
