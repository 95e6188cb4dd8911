"""The classic group protocol, in which a member that leads assigns the partitions."""
