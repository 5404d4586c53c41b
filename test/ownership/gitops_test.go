package ownership

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/csaupgrade"

	"gpustack.ai/model-deployment-scaler/internal/cli"
	"gpustack.ai/model-deployment-scaler/internal/fence"
)

// Field managers of Argo CD and of Flux. Neither runs here: their writes are made as they make them.
var managers = []string{"argocd-controller", "kustomize-controller"}

// named is a manifest of the page for a deployment of this test; with counts when they are given.
func named(object *unstructured.Unstructured, name string, counts ...int64) *unstructured.Unstructured {
	object = object.DeepCopy()
	object.SetName(name)
	object.SetNamespace(namespace)
	for i, role := range roles(object) {
		delete(role, "replicas")
		if len(counts) > 0 {
			role["replicas"] = counts[i]
		}
	}
	return object
}

func roles(object *unstructured.Unstructured) (list []map[string]any) {
	for _, role := range object.Object["spec"].(map[string]any)["roles"].([]any) {
		list = append(list, role.(map[string]any))
	}
	return list
}

// withImage is the next commit of Git: a new image for every role, and a new version of the engine.
func withImage(object *unstructured.Unstructured, image string) *unstructured.Unstructured {
	object = object.DeepCopy()
	for _, role := range roles(object) {
		role["image"] = image
	}
	object.Object["spec"].(map[string]any)["engine"].(map[string]any)["version"] = image
	return object
}

func images(object *unstructured.Unstructured) (list []any) {
	for _, role := range roles(object) {
		list = append(list, role["image"])
	}
	return list
}

func gitOps(t *testing.T, w *world) {
	p := readPage(t)
	t.Run("every pointer of the page resolves on a bound deployment", func(t *testing.T) { pointers(t, w, p) })
	for _, manager := range managers {
		t.Run("a manifest without counts never moves one nor conflicts: "+manager, func(t *testing.T) { withoutCounts(t, w, p, manager) })
		t.Run("counts that leave Git have to be handed over: "+manager, func(t *testing.T) { handedOver(t, w, p, manager) })
	}
	t.Run("client-side apply replaces the whole list", func(t *testing.T) { clientSide(t, w, p) })
	t.Run("Helm 3 sends the whole list", func(t *testing.T) { helm(t, w, p) })
	t.Run("Argo CD's ignored differences keep the counts, and the rest of the roles", func(t *testing.T) { ignoredByArgo(t, w, p) })
	t.Run("Flux's ignore rules do not save counts in Git", func(t *testing.T) { ignoredByFlux(t, w, p) })
	t.Run("a replaced manifest does not take the annotations away", func(t *testing.T) { replaced(t, w, p) })
	t.Run("an endless fight is fought by one side alone", func(t *testing.T) { fought(t, w, p) })
	t.Run("an uninstallation in the wrong order can be mended by hand", func(t *testing.T) { uninstalled(t, w, p) })
	t.Run("the plugin prints the page for a live deployment", func(t *testing.T) { printed(t, w, p) })
}

// U-H05.
func pointers(t *testing.T, w *world, p page) {
	require.NoError(t, w.sync(t, managers[0], named(p.manifest, "pointers"), false))
	w.bind(t, "pointers").commit(fence.CommitUp, 3, 2)
	live := w.get(t, "pointers")
	argo, flux := rule(t, p.argoIgnores, "ignoreDifferences"), rule(t, p.fluxIgnores, "ignore")
	identity := map[string]any{"group": group, "kind": live.GetKind(), "name": p.manifest.GetName(), "namespace": p.manifest.GetNamespace()}
	require.Equal(t, identity, flux["target"])
	for key, want := range identity {
		require.Equal(t, want, argo[key], key)
	}
	require.Equal(t, argo["jsonPointers"], flux["paths"])
	require.Len(t, argo["jsonPointers"], len(roles(p.manifest))+2, "one for each role, and for both annotations")
	values := map[any]bool{}
	for _, pointer := range argo["jsonPointers"].([]any) {
		value, found := resolve(live.Object, pointer.(string))
		require.True(t, found, pointer)
		values[value] = true
	}
	annotations := live.GetAnnotations()
	require.Equal(t, map[any]bool{int64(3): true, int64(2): true, annotations[bindingKey]: true, annotations[decisionKey]: true}, values)
	require.Equal(t, "argoproj.io/v1alpha1", p.argoIgnores.GetAPIVersion())
	require.Equal(t, "kustomize.toolkit.fluxcd.io/v1", p.fluxIgnores.GetAPIVersion())
	require.Contains(t, p.argoIgnores.Object["spec"].(map[string]any)["syncPolicy"].(map[string]any)["syncOptions"], "RespectIgnoreDifferences=true")
	require.Contains(t, p.serverSide.Object["spec"].(map[string]any)["syncPolicy"].(map[string]any)["syncOptions"], "ServerSideApply=true")
	require.Equal(t, map[string]string{"argocd.argoproj.io/compare-options": "ServerSideDiff=true"}, p.serverSide.GetAnnotations())
}

// Ten syncs, while the scaler moves the counts, in either version, and images go through.
func withoutCounts(t *testing.T, w *world, p page, manager string) {
	git := named(p.manifest, "without-"+manager)
	require.NoError(t, w.sync(t, manager, git, false))
	o := w.bind(t, git.GetName())
	for i := range 10 {
		o.commit(fence.CommitUp, int32(i+2), int32(i+2))
		if i%2 == 1 {
			git = withImage(git, fmt.Sprintf("engine:%d", i))
		}
		git.SetAPIVersion(group + "/" + versions[i/5])
		o.keeps(fmt.Sprintf("sync %d", i), func() { require.NoError(t, w.sync(t, manager, git, false), "no force, no conflict") })
		require.Equal(t, images(git), images(w.get(t, o.name)))
	}
	generation := w.get(t, o.name).GetGeneration()
	require.NoError(t, w.sync(t, manager, git, true))
	require.Equal(t, generation, w.get(t, o.name).GetGeneration(), "a sync of the same changes nothing")
}

func handedOver(t *testing.T, w *world, p page, manager string) {
	name := "handed-" + manager
	require.NoError(t, w.sync(t, manager, named(p.manifest, name, 2, 2), true))
	o := w.bind(t, name)
	o.commit(fence.CommitUp, 3, 2) // decode still belongs to Git

	git := withImage(named(p.manifest, name), "engine:2")
	o.refuses(func() error { return w.sync(t, manager, git, true) }, "would change decode from 2 to 1.")

	outdated := named(p.handOver, name, 2, 2)
	require.ErrorContains(t, w.kubectl(t, outdated, p.command...), `conflict with "model-deployment-scaler"`)
	o.keeps("the hand-over", func() { require.NoError(t, w.kubectl(t, named(p.handOver, name, 3, 2), p.command...)) })
	o.keeps("the sync after it", func() { require.NoError(t, w.sync(t, manager, git, true)) })
	require.Equal(t, []any{"engine:2", "engine:2"}, images(w.get(t, name)))
	o.commit(fence.CommitDown, 2, 1)
	o.commit(fence.CommitUp, 4, 4)
	o.keeps("later syncs", func() { require.NoError(t, w.sync(t, manager, git, false)) })
}

// As Argo CD applies by default, and as it changes to server-side apply.
func clientSide(t *testing.T, w *world, p page) {
	require.NoError(t, w.kubectl(t, named(p.manifest, "client-side", 2, 2), "apply"))
	o := w.bind(t, "client-side")
	o.commit(fence.CommitUp, 3, 2)
	git := withImage(named(p.manifest, o.name), "engine:2")
	o.refuses(func() error { return w.kubectl(t, git, "apply") }, "decode from 2 to 1, prefill from 3 to 1.")

	w.migrate(t, o.name)
	o.refuses(func() error { return w.sync(t, managers[0], git, true) }, "would change decode from 2 to 1.")
	o.keeps("the hand-over", func() { require.NoError(t, w.kubectl(t, named(p.handOver, o.name, 3, 2), p.command...)) })
	o.keeps("the switch to server-side apply", func() { require.NoError(t, w.sync(t, managers[0], git, true)) })
	require.Equal(t, []any{"engine:2", "engine:2"}, images(w.get(t, o.name)))
}

// migrate is what Argo CD does before its first server-side apply: what kubectl applied becomes its own.
func (w *world) migrate(t *testing.T, name string) {
	t.Helper()
	patch, err := csaupgrade.UpgradeManagedFieldsPatch(w.get(t, name), sets.New("kubectl-client-side-apply"), managers[0])
	require.NoError(t, err)
	require.NotEmpty(t, patch)
	_, err = w.deployments(GitOps, "v1").Patch(t.Context(), name, types.JSONPatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
}

// As Helm 3 upgrades a custom resource: a merge patch of what differs between two versions of the chart.
func helm(t *testing.T, w *world, p page) {
	require.NoError(t, w.sync(t, "helm", named(p.manifest, "helm"), true))
	o := w.bind(t, "helm")
	o.commit(fence.CommitUp, 3, 2)
	upgrade := func(changed map[string]any) error {
		_, err := w.deployments(GitOps, "v1").Patch(t.Context(), o.name, types.MergePatchType, encode(t, map[string]any{"spec": changed}), metav1.PatchOptions{FieldManager: "helm"})
		return err
	}
	chart := withImage(named(p.manifest, o.name), "engine:2").Object["spec"].(map[string]any)
	o.refuses(func() error { return upgrade(map[string]any{"roles": chart["roles"]}) }, "decode from 2 to 1, prefill from 3 to 1.")
	o.keeps("an upgrade that leaves the roles alone", func() { require.NoError(t, upgrade(map[string]any{"engine": chart["engine"]})) })
}

// U-H01. With ignored differences Argo CD takes the whole list of a custom resource from the cluster before it applies.
func ignoredByArgo(t *testing.T, w *world, p page) {
	require.NoError(t, w.kubectl(t, named(p.manifest, "ignored-argo", 2, 2), "apply"))
	o := w.bind(t, "ignored-argo")
	o.commit(fence.CommitUp, 3, 2)
	git := withImage(named(p.manifest, o.name, 1, 1), "engine:2")
	o.refuses(func() error { return w.kubectl(t, git, "apply") }, "decode from 2 to 1, prefill from 3 to 1.")

	respected := git.DeepCopy()
	respected.Object["spec"].(map[string]any)["roles"] = w.get(t, o.name).Object["spec"].(map[string]any)["roles"]
	o.keeps("a sync that respects ignored differences", func() { require.NoError(t, w.kubectl(t, respected, "apply")) })
	live := w.get(t, o.name)
	require.Equal(t, []any{nil, nil}, images(live), "the price: nothing of the roles arrives")
	version, _ := resolve(live.Object, "/spec/engine/version")
	require.Equal(t, "engine:2", version, "all else does")
	_, err := w.deployments(GitOps, "v1").Apply(t.Context(), o.name, git, metav1.ApplyOptions{FieldManager: "argocd-controller", Force: true, DryRun: []string{metav1.DryRunAll}})
	require.True(t, apierrors.IsForbidden(err), "a comparison on the server tries the counts of Git: %v", err)
}

// Flux tries the manifest as it is in Git before it looks at its rules.
func ignoredByFlux(t *testing.T, w *world, p page) {
	const flux = "kustomize-controller"
	git := named(p.manifest, "ignored-flux", 2, 2)
	require.NoError(t, w.sync(t, flux, git, true))
	o := w.bind(t, git.GetName())
	o.commit(fence.CommitUp, 3, 2)
	o.refuses(func() error {
		_, err := w.deployments(GitOps, "v1").Apply(t.Context(), o.name, git, metav1.ApplyOptions{FieldManager: flux, Force: true, DryRun: []string{metav1.DryRunAll}})
		return err
	}, "prefill from 3 to 2.")
}

// U-G07.
func replaced(t *testing.T, w *world, p page) {
	require.NoError(t, w.sync(t, managers[0], named(p.manifest, "replaced"), true))
	o := w.bind(t, "replaced")
	o.commit(fence.CommitUp, 3, 2)
	git := named(p.manifest, o.name, 3, 2)
	o.refuses(func() error { return w.kubectl(t, git, "replace") }, bindingKey, "is still there")
	git.SetAnnotations(map[string]string{bindingKey: o.binding.String()})
	o.refuses(func() error { return w.kubectl(t, git, "replace") }, decisionKey, "cannot be changed")
}

// U-H03.
func fought(t *testing.T, w *world, p page) {
	git := named(p.manifest, "fought", 2, 2)
	for i := range int64(10) { // a Shadow scaler binds nothing
		require.NoError(t, w.sync(t, managers[1], named(p.manifest, git.GetName(), i%3+1, 1), true))
	}
	require.NoError(t, w.sync(t, managers[1], git, true))
	o := w.bind(t, git.GetName())
	o.commit(fence.CommitUp, 3, 3)
	before := w.get(t, o.name)
	for range 10 {
		o.refuses(func() error { return w.sync(t, managers[1], git, true) }, "decode from 3 to 2, prefill from 3 to 2.")
	}
	require.Equal(t, before.GetGeneration(), w.get(t, o.name).GetGeneration(), "refusals start no episode")
}

// What `kubectl mds gitops` prints for a live deployment is what the page says, with its own counts, and works.
func printed(t *testing.T, w *world, p page) {
	name := "printed"
	require.NoError(t, w.sync(t, managers[0], named(p.manifest, name, 2, 2), true))
	o := w.bind(t, name)
	o.commit(fence.CommitUp, 5, 2)
	var out, errs bytes.Buffer
	require.Zero(t, cli.Main([]string{"gitops", name, "--kubeconfig", w.cluster.Kubeconfig, "-n", namespace, "-o", "json"}, &out, &errs), errs.String())
	var recipe struct {
		HandOver map[string]any
		Pointers []any
	}
	require.NoError(t, json.Unmarshal(out.Bytes(), &recipe))
	require.Equal(t, rule(t, p.argoIgnores, "ignoreDifferences")["jsonPointers"], recipe.Pointers)
	handOver := &unstructured.Unstructured{Object: recipe.HandOver}
	o.keeps("the printed hand-over", func() { require.NoError(t, w.kubectl(t, handOver, p.command...)) })
	o.keeps("the sync after it", func() { require.NoError(t, w.sync(t, managers[0], named(p.manifest, name), true)) })
	require.Equal(t, 1, cli.Main([]string{"gitops", "nobody", "--kubeconfig", w.cluster.Kubeconfig, "-n", namespace}, &out, &errs))
	require.Contains(t, errs.String(), `reading ModelDeployment ownership/nobody`)
}
