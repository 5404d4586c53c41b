package invariants

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/fence"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

// limited is a pair of roles, a and b, of 1 to 4 replicas, at most two of a for one of b, that grow by 2 and shrink by 1.
var limited = Limits{
	Roles:  []workerv1.RoleBounds{{Name: "a", MinReplicas: 1, MaxReplicas: 4}, {Name: "b", MinReplicas: 1, MaxReplicas: 4}},
	Ratios: []workerv1.Ratio{{NumeratorRole: "a", DenominatorRole: "b", Max: ptr.To(resource.MustParse("2"))}},
	Up:     2, Down: 1,
}

// at is a version with these counts, written by a decision of term 1.
func at(a, b int32, decision string) target.Deployment {
	return under(1, a, b, decision)
}

func under(term int64, a, b int32, decision string) target.Deployment {
	d := target.Deployment{Roles: []target.Role{{Name: "a", Replicas: a}, {Name: "b", Replicas: b}}, Annotations: map[string]string{
		fence.BindingAnnotation: fmt.Sprintf(`{"scalerName":"s","scalerUID":"u","term":%d}`, term),
	}}
	if decision != "" {
		d.Annotations[fence.DecisionAnnotation] = fmt.Sprintf(`{"decisionID":%q,"term":%d,"vector":{"a":%d,"b":%d}}`, decision, term, a, b)
	}
	return d
}

func TestVersionsThatKeepEverythingAreOrderly(t *testing.T) {
	commits, err := Orderly([]target.Deployment{
		at(1, 1, ""), at(2, 3, "l-0.1.up"), at(2, 3, "l-0.1.up"), at(1, 1, "l-0.2.rollback"), at(2, 1, "l-1.3.acquire"),
		at(1, 1, "l-1.4.down"), at(2, 1, "l-1.5.restore"), under(2, 1, 1, "l-1.1.down"),
	}, limited)
	require.NoError(t, err)
	require.Len(t, commits, 6)
	require.Equal(t, Commit{fence.DecisionID{Epoch: "l-0", Sequence: 2, Kind: fence.CommitRollback}, 1, 3}, commits[1])
}

func TestWhatIsBrokenIsNamed(t *testing.T) {
	for name, tt := range map[string]struct {
		versions []target.Deployment
		wrong    string
	}{
		"a count over its bound":                 {[]target.Deployment{at(4, 4, ""), at(4, 5, "l-0.1.up")}, "is not within 1 and 4"},
		"a ratio out of its band":                {[]target.Deployment{at(2, 1, ""), at(3, 1, "l-0.1.up")}, "is not within the band"},
		"growth by more than a step":             {[]target.Deployment{at(1, 1, ""), at(1, 4, "l-0.1.up")}, "leads role b from 1 to 4"},
		"a removal by more than a step":          {[]target.Deployment{at(1, 3, ""), at(1, 1, "l-0.1.down")}, "leads role b from 3 to 1"},
		"growth that shrinks":                    {[]target.Deployment{at(1, 2, ""), at(1, 1, "l-0.1.up")}, "leads role b from 2 to 1"},
		"a rollback past where growth began":     {[]target.Deployment{at(1, 2, ""), at(1, 3, "l-0.1.up"), at(1, 1, "l-0.2.rollback")}, "leads role b from 3 to 1"},
		"a transfer of two":                      {[]target.Deployment{at(1, 1, ""), at(2, 2, "l-0.1.acquire")}, "moves 2 replicas"},
		"counts without a decision":              {[]target.Deployment{at(1, 1, ""), at(1, 2, "")}, "counts moved"},
		"a decision that says something else":    {[]target.Deployment{at(1, 1, "l-0.1.up"), at(1, 2, "x")}, "x"},
		"a decision written before":              {[]target.Deployment{at(1, 1, ""), at(1, 2, "l-0.1.up"), at(1, 3, "l-0.1.up")}, "does not come after"},
		"a decision of a leader that was before": {[]target.Deployment{at(1, 1, ""), at(1, 2, "l-0.1.up"), at(1, 3, "l-1.2.up"), at(1, 4, "l-0.3.up")}, "was replaced before"},
		"a term that falls":                      {[]target.Deployment{under(2, 1, 1, ""), under(1, 1, 1, "")}, "after one of term 2"},
		"a role that appears":                    {[]target.Deployment{{Roles: []target.Role{{Name: "a", Replicas: 1}}}}, "is not of 2 roles"},
		"nothing":                                {nil, "no version"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Orderly(tt.versions, limited)
			require.ErrorContains(t, err, tt.wrong)
		})
	}
}
