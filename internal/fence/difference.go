package fence

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// difference names what changes between two count vectors, by role: "decode 2 to 4, encode removed".
func difference(before, after map[string]int32) string {
	all := maps.Clone(after)
	if all == nil {
		all = make(map[string]int32)
	}
	maps.Copy(all, before)
	var parts []string
	for _, role := range slices.Sorted(maps.Keys(all)) {
		was, existed := before[role]
		is, exists := after[role]
		switch {
		case !exists:
			parts = append(parts, role+" removed")
		case !existed:
			parts = append(parts, fmt.Sprintf("%s added with %d", role, is))
		case was != is:
			parts = append(parts, fmt.Sprintf("%s from %d to %d", role, was, is))
		}
	}
	return strings.Join(parts, ", ")
}
