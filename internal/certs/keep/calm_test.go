package keep

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCalmIsTheTimeSinceSomethingChanged(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	a, b := []byte("a"), []byte("b")
	c := &Calm{}
	for _, step := range []struct {
		then  time.Duration
		good  bool
		state [][]byte
		want  time.Duration
	}{
		{0, true, [][]byte{a, b}, 0},
		{time.Minute, true, [][]byte{a, b}, time.Minute},
		{time.Minute, true, [][]byte{a, nil}, 0},
		{time.Minute, true, [][]byte{a}, 0},
		{time.Minute, true, [][]byte{a}, time.Minute},
		{time.Minute, false, [][]byte{a}, 0},
		{time.Minute, true, [][]byte{a}, time.Minute},
	} {
		now = now.Add(step.then)
		require.Equal(t, step.want, c.For(now, step.good, step.state...))
	}
}
