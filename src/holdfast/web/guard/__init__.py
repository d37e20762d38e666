"""What stands between the network and the operations: hosts, origins, identities, rates, headers."""
