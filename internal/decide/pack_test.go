package decide

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gpustack.ai/model-deployment-scaler/internal/windows"
)

func TestWhatIsPackedComesBackToTheNanosecond(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := func() time.Time {
			return time.Unix(rapid.Int64Range(-1<<36, 1<<36).Draw(t, "seconds"), rapid.Int64Range(0, 999_999_999).Draw(t, "nanoseconds"))
		}
		s := full()
		for i := range s.Roles {
			s.Roles[i].History = nil
			for range rapid.IntRange(0, 5).Draw(t, "recommendations") {
				s.Roles[i].History = append(s.Roles[i].History, windows.Recommendation{At: at(), Replicas: rapid.Int32().Draw(t, "replicas")})
			}
		}
		for i := range s.Predictors {
			s.Predictors[i].History = nil
			for range rapid.IntRange(0, 5).Draw(t, "demands") {
				s.Predictors[i].History = append(s.Predictors[i].History, windows.Rate{At: at(), Span: time.Duration(rapid.Int64().Draw(t, "span")),
					PerSecond: rapid.Float64().Draw(t, "rate"), Partial: rapid.Bool().Draw(t, "partial")})
			}
		}
		packed := s.Pack()
		require.Equal(t, s, packed.State())
		packed.State().Roles[0].Current = 99
		require.Equal(t, s, packed.State(), "what was given away is another's")
	})
}

func TestAnEmptyStateIsPackedToo(t *testing.T) {
	require.Equal(t, State{}, State{}.Pack().State())
	require.Equal(t, State{}, Packed{}.State())
}

func TestPackingSavesThreeQuarters(t *testing.T) {
	var s State
	var r RoleState
	p := Predictor{}
	for i := range 120 {
		at := noon.Add(time.Duration(i) * (interval + 123456789))
		r.History = append(r.History, windows.Recommendation{At: at, Replicas: 5})
		p.History = append(p.History, windows.Rate{At: at, Span: interval, PerSecond: math.Pi})
	}
	s.Roles, s.Predictors = []RoleState{r}, []Predictor{p}
	require.Less(t, len(s.Pack().histories), 120*(32+48)/3)
}
