package mptcp

// AddressesOf is for tests: what a connection under the userspace path manager knows of our addresses.
func (h *Handle) AddressesOf(c Connection) ([]Endpoint, error) { return h.addressesOf(c) }
