package kube

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"gpustack.ai/model-deployment-scaler/internal/fence"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

var testBinding = fence.Binding{ScalerName: "s", ScalerUID: "11-22", Term: 1}

// decided is a decision of the test's leader.
func decided(sequence int64, kind fence.CommitKind, vector map[string]int32) *fence.Decision {
	id := fence.DecisionID{Epoch: testEpoch.String(), Sequence: sequence, Kind: kind}
	return &fence.Decision{DecisionID: id.String(), Term: testBinding.Term, Vector: vector}
}

func TestABindingAndTheFirstVectorLandInOneWrite(t *testing.T) {
	for name, annotations := range map[string]map[string]string{
		"on a target without annotations":      nil,
		"beside the annotations of a stranger": {"example.com/note": "kept", "other": "kept too"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			before := w.deploy("md", annotations)
			decision := decided(1, fence.CommitUp, map[string]int32{"prefill": 4, "decode": 1})

			generation, err := w.writer().Commit(t.Context(), before, Change{Bind: &testBinding, Decision: decision})
			require.NoError(t, err)

			after := w.live("md")
			require.Equal(t, map[string]int32{"prefill": 4, "decode": 1}, after.Counts())
			require.Equal(t, before.Generation+1, after.Generation)
			require.Equal(t, after.Generation, generation)
			require.Equal(t, testBinding.String(), after.Annotations[fence.BindingAnnotation])
			require.Equal(t, decision.String(), after.Annotations[fence.DecisionAnnotation])
			for key, value := range annotations {
				require.Equal(t, value, after.Annotations[key])
			}
		})
	}
}

func TestACountThatWasLeftToItsDefaultCanBeWritten(t *testing.T) {
	w := newWorld(t)
	before := w.deploy("md", nil) // decode has no replicas field where the schema has no default
	_, err := w.writer().Commit(t.Context(), before,
		Change{Bind: &testBinding, Decision: decided(1, fence.CommitUp, map[string]int32{"prefill": 2, "decode": 3})})
	require.NoError(t, err)
	require.Equal(t, int32(3), w.live("md").Counts()["decode"])
}

func TestAWriteIsAttributedToTheScaler(t *testing.T) {
	w := newWorld(t)
	_, err := w.writer().Commit(t.Context(), w.deploy("md", nil), Change{Bind: &testBinding})
	require.NoError(t, err)
	object, err := w.client.Targets(w.namespace).Get(t.Context(), "md", metav1.GetOptions{})
	require.NoError(t, err)
	managers := map[string]bool{}
	for _, entry := range object.GetManagedFields() {
		managers[entry.Manager] = true
	}
	require.True(t, managers[FieldManager], "managers: %v", managers)
}

func TestABindingAloneLeavesTheGeneration(t *testing.T) {
	w := newWorld(t)
	before := w.deploy("md", nil)
	generation, err := w.writer().Commit(t.Context(), before, Change{Bind: &testBinding})
	require.NoError(t, err)
	require.Equal(t, before.Generation, generation)
}

func TestAReleaseRemovesTheBindingAndKeepsCountsAndDecision(t *testing.T) {
	w := newWorld(t)
	decision := decided(1, fence.CommitUp, map[string]int32{"prefill": 4, "decode": 2})
	_, err := w.writer().Commit(t.Context(), w.deploy("md", nil), Change{Bind: &testBinding, Decision: decision})
	require.NoError(t, err)

	_, err = w.writer().Commit(t.Context(), w.live("md"), Change{Release: true})
	require.NoError(t, err)

	after := w.live("md")
	require.NotContains(t, after.Annotations, fence.BindingAnnotation)
	require.Equal(t, decision.String(), after.Annotations[fence.DecisionAnnotation])
	require.Equal(t, decision.Vector, after.Counts())
}

func TestAPlanMadeOnAnOldVersionIsRefusedWith409(t *testing.T) {
	w := newWorld(t)
	before := w.deploy("md", nil)
	_, err := w.client.Targets(w.namespace).Patch(t.Context(), "md", types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"example.com/touched":"yes"}}}`), metav1.PatchOptions{})
	require.NoError(t, err)

	_, err = w.writer().Commit(t.Context(), before, Change{Bind: &testBinding})
	require.True(t, apierrors.IsConflict(err), "%v", err)
	require.True(t, Outdated(err))
	require.NotContains(t, w.live("md").Annotations, fence.BindingAnnotation)
}

func TestARoleThatIsNotWhereThePlanSawItIsNotTouched(t *testing.T) {
	w := newWorld(t)
	mistaken := w.deploy("md", nil)
	mistaken.Roles[0], mistaken.Roles[1] = mistaken.Roles[1], mistaken.Roles[0]

	_, err := w.writer().Commit(t.Context(), mistaken,
		Change{Bind: &testBinding, Decision: decided(1, fence.CommitUp, map[string]int32{"prefill": 9, "decode": 9})})
	require.True(t, Outdated(err), "%v", err)
	require.Equal(t, map[string]int32{"prefill": 2, "decode": 1}, w.live("md").Counts())
}

func TestAWriteThatTheFenceWouldRefuseIsNotSent(t *testing.T) {
	w := newWorld(t)
	before := w.deploy("md", nil)
	stale := fence.DecisionID{Epoch: "ffffffff-1", Sequence: 1, Kind: fence.CommitUp}
	for name, change := range map[string]Change{
		"counts without a binding": {Decision: decided(1, fence.CommitUp, map[string]int32{"prefill": 4, "decode": 1})},
		"a decision of another epoch": {Bind: &testBinding, Decision: &fence.Decision{
			DecisionID: stale.String(), Term: 1, Vector: map[string]int32{"prefill": 4, "decode": 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := w.writer().Commit(t.Context(), before, change)
			var refusal *fence.Refusal
			require.ErrorAs(t, err, &refusal)
			require.Equal(t, before.ResourceVersion, w.live("md").ResourceVersion)
		})
	}
}

func TestAVectorMustNameEveryRoleOfTheTargetAndNoOther(t *testing.T) {
	d := target.Deployment{Namespace: "ns", Name: "md", ResourceVersion: "7", Roles: []target.Role{{Name: "a", Replicas: 1}}}
	for name, vector := range map[string]map[string]int32{
		"a role is missing":     {},
		"a role is not there":   {"a": 2, "b": 1},
		"another role is named": {"b": 1},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := patch(d, Change{Decision: &fence.Decision{Vector: vector}})
			require.Error(t, err)
		})
	}
}

// lost is a Lease that is no longer held.
type lost struct{}

func (lost) Write(context.Context) (context.Context, context.CancelFunc, error) {
	return nil, nil, ErrLeaseLost
}

func TestNothingIsWrittenWithoutTheLease(t *testing.T) {
	w := newWorld(t)
	d, s := w.deploy("md", nil), w.scaler("s", "md")
	writer := NewWriter(w.client, lost{}, testEpoch)

	_, err := writer.Commit(t.Context(), d, Change{Bind: &testBinding})
	require.ErrorIs(t, err, ErrLeaseLost)
	_, err = writer.WriteStatus(t.Context(), s, s.Status)
	require.ErrorIs(t, err, ErrLeaseLost)
	_, err = writer.AddFinalizer(t.Context(), s)
	require.ErrorIs(t, err, ErrLeaseLost)

	require.Equal(t, d.ResourceVersion, w.live("md").ResourceVersion)
}
