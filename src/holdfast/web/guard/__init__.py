"""The checks between the network and the operations: hosts, origins, identities, rates, headers."""
