package fleet

import (
	"fmt"
	"net/netip"
)

// addresses hands out the addresses of a range, by Pod. One that was given back is used again as late as possible.
type addresses struct {
	prefix netip.Prefix
	next   netip.Addr
	used   map[netip.Addr]bool
	byPod  map[string]netip.Addr // by UID
}

func newAddresses(prefix netip.Prefix) *addresses {
	prefix = prefix.Masked()
	return &addresses{prefix: prefix, next: prefix.Addr().Next(), used: make(map[netip.Addr]bool), byPod: make(map[string]netip.Addr)}
}

// take an address for a Pod, the same one if it is asked again.
func (a *addresses) take(uid string) (netip.Addr, error) {
	if address, has := a.byPod[uid]; has {
		return address, nil
	}
	for tried := 0; tried <= len(a.used); tried++ {
		candidate := a.next
		if a.next = candidate.Next(); !a.prefix.Contains(a.next) {
			a.next = a.prefix.Addr().Next()
		}
		if !a.used[candidate] && a.prefix.Contains(candidate) {
			a.used[candidate], a.byPod[uid] = true, candidate
			return candidate, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("finding an address for a Pod: all %d of %s are in use", len(a.used), a.prefix)
}

func (a *addresses) giveBack(uid string) {
	delete(a.used, a.byPod[uid])
	delete(a.byPod, uid)
}
