package decide

import (
	"testing"
	"time"

	"gpustack.ai/model-deployment-scaler/internal/observe"
)

// BenchmarkRebuild is what a new leader does for each scaler: half an hour of passes, at the default interval (D55).
func BenchmarkRebuild(b *testing.B) {
	for name, algorithm := range benchmarkedAlgorithms() {
		b.Run(name, func(b *testing.B) {
			in := pairWithEncode(b, algorithm)
			replayed := map[string][]observe.RoleObservation{}
			for role, o := range in.Observations {
				for i := range 120 {
					o.Sequence, o.Age = uint64(i+1), time.Duration(120-i)*15*time.Second
					replayed[role] = append(replayed[role], o)
				}
			}
			in.State = State{Roles: in.State.Roles, Binding: in.State.Binding}
			b.ReportAllocs()
			for b.Loop() {
				Rebuild(in, replayed)
			}
		})
	}
}
