package invariants

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
)

// numbered is the identity of an object's version.
func numbered(uid string, number int) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetUID(types.UID(uid))
	u.SetResourceVersion(fmt.Sprint(number))
	return u
}

// orderlyHistory is: the leader of transition 0 grows b to 2 and its status follows; that of transition 1 grows it to 3.
type orderlyHistory struct {
	History
	admitted, blind bool
	floor           int32 // 0: not known
}

func newHistory() *orderlyHistory {
	h := &orderlyHistory{admitted: true}
	h.sources.Admitted = func(string, workerv1.Vector, time.Time, time.Time) bool { return h.admitted }
	h.sources.Blind = func(_, role string, _ time.Time) bool { return h.blind && role == "b" }
	h.sources.Floor = func(_, role, decision string, _ time.Time) (int32, bool) {
		return h.floor, h.floor > 0 && role == "b" && decision == "l-0.2.down"
	}
	h.lease(1, "a", 0)
	h.status(2, "", nil)
	h.targets.put(numbered("t", 3), at(1, 1, ""))
	h.targets.put(numbered("t", 4), at(1, 2, "l-0.1.up"))
	return h
}

func (h *orderlyHistory) lease(number int, holder string, transitions int32) {
	lease := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseTransitions: &transitions}}
	lease.UID = "l"
	h.leases.put(numbered("l", number), lease)
}

func (h *orderlyHistory) status(number int, commit string, cohort *workerv1.PendingCohort) {
	s := &workerv1.ModelDeploymentScaler{}
	s.Status.PendingCohort = cohort
	if commit != "" {
		s.Status.LastCommit = &workerv1.CommitStatus{DecisionID: commit}
	}
	h.scalers.put(numbered("u", number), s)
}

func (h *orderlyHistory) grow(number int, decision string) {
	h.targets.put(numbered("t", number), at(1, 3, decision))
}

func (h *orderlyHistory) shrink() {
	h.status(5, "l-0.1.up", nil)
	h.targets.put(numbered("t", 6), at(1, 1, "l-0.2.down"))
}

func TestAHistoryIsHeldAgainstLeaseAndStatus(t *testing.T) {
	for name, tt := range map[string]struct {
		then  func(*orderlyHistory)
		wrong string
	}{
		"a change of leaders": {func(h *orderlyHistory) {
			h.status(5, "l-0.1.up", nil)
			h.lease(6, "b", 1)
			h.grow(7, "l-1.2.up")
		}, ""},
		"growth past what was admitted meanwhile": {func(h *orderlyHistory) {
			h.status(5, "l-0.1.up", &workerv1.PendingCohort{DecisionID: "l-0.1.up"})
			h.grow(6, "l-0.2.up")
		}, ""},
		"a write after another leads": {func(h *orderlyHistory) {
			h.status(5, "l-0.1.up", nil)
			h.lease(6, "b", 1)
			h.grow(7, "l-0.2.up")
		}, "when epoch l-1 led"},
		"a write after the Lease was given back": {func(h *orderlyHistory) {
			h.status(5, "l-0.1.up", nil)
			h.lease(6, "", 0)
			h.grow(7, "l-0.2.up")
		}, "decision l-0.2.up was stored when"},
		"a second write before the status of the first": {func(h *orderlyHistory) { h.grow(5, "l-0.2.up") }, "before the status held l-0.1.up"},
		"a decision left out": {func(h *orderlyHistory) {
			h.status(5, "l-0.1.up", nil)
			h.grow(6, "l-0.3.up")
		}, "does not count on from"},
		"growth past what has no quota": {func(h *orderlyHistory) {
			h.admitted = false
			h.status(5, "l-0.1.up", nil) // whatever it says
			h.grow(6, "l-0.2.up")
		}, "was not admitted"},
		"a removal": {func(h *orderlyHistory) { h.shrink() }, ""},
		"a removal from a role that could not be observed": {func(h *orderlyHistory) {
			h.blind = true
			h.shrink()
		}, "leads role b from 2 to 1, and not all of it could be observed"},
		"growth of a role that could not be observed": {func(h *orderlyHistory) {
			h.blind = true
			h.status(5, "l-0.1.up", nil)
			h.grow(6, "l-0.2.up")
		}, ""},
		"a removal to what was asked for within the window": {func(h *orderlyHistory) {
			h.floor = 1
			h.shrink()
		}, ""},
		"a removal below what was asked for within the window": {func(h *orderlyHistory) {
			h.floor = 2
			h.shrink()
		}, "leads role b to 1, and 2 were asked for within its scale-down window"},
		"a status that was not seen, because the watch broke": {func(h *orderlyHistory) {
			h.scalers.gap()
			h.grow(7, "l-0.2.up")
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHistory()
			tt.then(h)
			r := h.Check(func(string) Limits { return limited })
			require.Equal(t, 2, r.Commits)
			require.Equal(t, 3, r.Versions)
			if tt.wrong == "" {
				require.Empty(t, r.Violations)
				return
			}
			require.Len(t, r.Violations, 1)
			require.ErrorContains(t, r.Violations[0], tt.wrong)
		})
	}
}
