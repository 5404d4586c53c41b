package ownership

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// subject is a deployment in one of the states.
type subject struct {
	names Names
	live  *unstructured.Unstructured
}

type situation struct {
	state    State
	deleting bool
}

// subjects makes one deployment for each state, once as it is and once on its way out.
func (w *world) subjects(t *testing.T) map[situation]subject {
	t.Helper()
	all := map[situation]subject{}
	for i, state := range States {
		for _, deleting := range []bool{false, true} {
			all[situation{state, deleting}] = w.subject(t, fmt.Sprintf("m%d-%t", i, deleting), state, deleting)
		}
	}
	return all
}

func (w *world) subject(t *testing.T, name string, state State, deleting bool) subject {
	t.Helper()
	s := subject{names: Names{Scaler: name, UID: "22222222-0000-4000-8000-000000000000", Epoch: w.epoch}}
	if state != Orphaned {
		s.names.UID = w.scaler(t, name)
	}
	deployments := w.deployments(User, "v1")
	object := deployment(name, Case{State: state}.Old(s.names))
	object.SetFinalizers([]string{"example.com/keep"})
	created, err := deployments.Create(t.Context(), object, metav1.CreateOptions{})
	require.NoError(t, err)
	if state != Orphaned {
		w.record(t, name, created.GetUID())
	}
	if deleting {
		require.NoError(t, deployments.Delete(t.Context(), name, metav1.DeleteOptions{}))
	}
	s.live, err = deployments.Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, deleting, s.live.GetDeletionTimestamp() != nil)
	return s
}

func TestOnARealAPIServer(t *testing.T) {
	var subjects map[situation]subject
	w := newWorld(t, func(w *world) { subjects = w.subjects(t) })
	t.Run("every combination gets the verdict of the spec", func(t *testing.T) { everyCombination(t, w, subjects) })
	t.Run("nobody creates a deployment that has an owner", func(t *testing.T) { creations(t, w) })
	t.Run("the status subresource moves nothing that is owned", func(t *testing.T) { statusWrites(t, w, subjects) })
	t.Run("GitOps controllers", func(t *testing.T) { gitOps(t, w) })
}

// everyCombination tries each write in one of the versions and one of the ways, which take turns. What should pass is a dry
// run, and so is every other write that should not: they are judged alike.
func everyCombination(t *testing.T, w *world, subjects map[situation]subject) {
	var (
		mu                        sync.Mutex
		unexpected                []string
		tried, allowed, persisted int
	)
	g := errgroup.Group{}
	g.SetLimit(8)
	for c := range Sample() {
		i := tried
		tried++
		s := subjects[situation{c.State, c.Deleting}]
		expected := c.Allowed(s.names)
		version := versions[i%len(versions)]
		attempt := writer{t: t, client: w.deployments(c.Actor, version), version: version, live: s.live, old: c.Old(s.names), new: c.New(s.names)}
		if expected || i%3 == 0 {
			attempt.dryRun = []string{metav1.DryRunAll}
		} else {
			persisted++
		}
		if expected {
			allowed++
		}
		g.Go(func() error {
			err := attempt.write(i / len(versions) % ways)
			if !asExpected(expected, err) {
				mu.Lock()
				defer mu.Unlock()
				unexpected = append(unexpected, fmt.Sprintf("%+v: allowed should be %t, and the answer was: %v", c, expected, err))
			}
			return nil
		})
	}
	require.NoError(t, g.Wait())
	require.Empty(t, unexpected[:min(len(unexpected), 20)], "%d of %d", len(unexpected), tried)
	require.Equal(t, 6048, tried, "the table is complete")
	for at, s := range subjects {
		live, err := w.deployments(User, "v1").Get(t.Context(), s.live.GetName(), metav1.GetOptions{})
		require.NoError(t, err)
		require.Equal(t, s.live.GetResourceVersion(), live.GetResourceVersion(), "%v was written to", at)
	}
	t.Logf("%d combinations on %d deployments, %d allowed, %d refused (%d without dry run), 0 unexpected admissions", tried, len(subjects), allowed, tried-allowed, persisted)
}

// asExpected: a refusal is the fence's own, with its code and its sentence.
func asExpected(allowed bool, err error) bool {
	if allowed {
		return err == nil
	}
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "ModelDeployment "+namespace+"/")
}

func creations(t *testing.T, w *world) {
	tried := 0
	for _, actor := range Actors {
		for _, version := range versions {
			for _, b := range []*string{nil, new(""), new(garbage), new(binding("s1", goneUID, 1))} {
				for _, d := range []*string{nil, new(""), new(decision(w.epoch, 1, "up", 1, []Role{{"server", 2}}))} {
					object := deployment("born", Object{Roles: []Role{{"server", 2}}, Binding: b, Decision: d})
					object.SetAPIVersion(group + "/" + version)
					_, err := w.deployments(actor, version).Create(t.Context(), object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
					require.True(t, asExpected(b == nil && d == nil, err), "%s creates with %v, %v: %v", actor, b, d, err)
					tried++
				}
			}
		}
	}
	t.Logf("%d combinations, 0 unexpected admissions", tried)
}

// statusWrites pass, with whatever else they carry left out by the API server.
func statusWrites(t *testing.T, w *world, subjects map[situation]subject) {
	tried := 0
	for at, s := range subjects {
		for _, actor := range Actors {
			for _, version := range versions {
				c := Case{actor, at.state, at.deleting, Grow, ForeignBinding, Commit}
				client := w.deployments(actor, version)
				live, err := client.Get(t.Context(), s.live.GetName(), metav1.GetOptions{})
				require.NoError(t, err)
				attempt := writer{t: t, version: version, live: live, old: c.Old(s.names), new: c.New(s.names)}
				object := attempt.wanted()
				object.Object["status"] = map[string]any{"phase": string(actor)}
				_, err = client.UpdateStatus(t.Context(), object, metav1.UpdateOptions{})
				require.NoError(t, err)
				patch := map[string]any{
					"metadata": map[string]any{"annotations": attempt.annotations(true)},
					"spec":     map[string]any{"roles": rolesOf(attempt.new)}, "status": map[string]any{"phase": version},
				}
				_, err = client.Patch(t.Context(), live.GetName(), types.MergePatchType, encode(t, patch), metav1.PatchOptions{}, "status")
				require.NoError(t, err)
				after, err := client.Get(t.Context(), live.GetName(), metav1.GetOptions{})
				require.NoError(t, err)
				require.Equal(t, version, after.Object["status"].(map[string]any)["phase"])
				require.Equal(t, live.Object["spec"], after.Object["spec"])
				require.Equal(t, live.GetAnnotations(), after.GetAnnotations())
				tried += 2
			}
		}
	}
	t.Logf("%d writes to status, 0 of them moved a count or an annotation", tried)
}
