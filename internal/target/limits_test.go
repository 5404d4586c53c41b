package target

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLongestNameGrowsWithCountAndSize(t *testing.T) {
	md, role := strings.Repeat("m", 36), strings.Repeat("r", 20)
	for name, test := range map[string]struct {
		role Role
		max  int32
		want int
	}{
		"several Pods, ten instances":     {Role{Name: role, Size: 2}, 10, 63},
		"several Pods, eleven instances":  {Role{Name: role, Size: 2}, 11, 64},
		"eleven Pods, ten instances":      {Role{Name: role, Size: 11}, 10, 64},
		"one Pod, a thousand instances":   {Role{Name: role, Size: 1}, 1024, 57},
		"no size, a thousand instances":   {Role{Name: role}, 1024, 57},
		"several Pods, a single instance": {Role{Name: role, Size: 64}, 1, 64},
	} {
		t.Run(name, func(t *testing.T) {
			require.Len(t, LongestName(md, test.role, test.max), test.want)
		})
	}
	require.Equal(t, "m-r-r15-m3", LongestName("m", Role{Name: "r", Size: 4}, 16))
}

func TestCollisionFindsTheRoleWhoseServiceAnInstanceWouldTake(t *testing.T) {
	d := Deployment{Roles: []Role{{Name: "a", Size: 2}, {Name: "a-r3", Size: 1}, {Name: "a-r03", Size: 1}, {Name: "a-rx", Size: 1}}}
	require.Equal(t, "a-r3", Collision(d, d.Roles[0], 4))
	require.Empty(t, Collision(d, d.Roles[0], 3), "the fourth instance is not allowed")
	require.Empty(t, Collision(d, Role{Name: "a", Size: 1}, 4), "single-Pod instances have no Services")
}
