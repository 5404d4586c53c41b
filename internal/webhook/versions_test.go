package webhook

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

// served answers discovery: resources by version; a version that is not in it is not there.
type served struct {
	resources map[string][]string
	broken    map[string]bool
	asked     int
}

func (s *served) ServerResourcesForGroupVersionWithContext(_ context.Context, groupVersion string) (*metav1.APIResourceList, error) {
	s.asked++
	gv, err := schema.ParseGroupVersion(groupVersion)
	if err != nil || s.broken[gv.Version] {
		return nil, errors.Join(err, errors.New("service unavailable"))
	}
	names, found := s.resources[gv.Version]
	if !found {
		return nil, apierrors.NewNotFound(schema.GroupResource{}, groupVersion)
	}
	list := &metav1.APIResourceList{}
	for _, name := range names {
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: name})
	}
	return list, nil
}

func TestTheVersionThatServesBothKindsIsRead(t *testing.T) {
	both := []string{workerv1.Resource, target.Resource, target.Resource + "/status"}
	for name, test := range map[string]struct {
		discovery served
		fixed     string
		version   string // of deployments; empty: not served
		fails     bool
	}{
		"both versions serve both":                    {discovery: served{resources: map[string][]string{"v1": both, "v1alpha1": both}}, version: "v1"},
		"an aggregated v1 knows deployments alone":    {discovery: served{resources: map[string][]string{"v1": {target.Resource}, "v1alpha1": both}}, version: "v1alpha1"},
		"v1 is not there":                             {discovery: served{resources: map[string][]string{"v1alpha1": both}}, version: "v1alpha1"},
		"v1 is down, v1alpha1 serves both":            {discovery: served{resources: map[string][]string{"v1alpha1": both}, broken: map[string]bool{"v1": true}}, version: "v1alpha1"},
		"v1 is down, v1alpha1 knows deployments only": {discovery: served{resources: map[string][]string{"v1alpha1": {target.Resource}}, broken: map[string]bool{"v1": true}}, fails: true},
		"no version serves both":                      {discovery: served{resources: map[string][]string{"v1": {target.Resource}, "v1alpha1": {workerv1.Resource}}}, version: "v1"},
		"scalers are installed, deployments not":      {discovery: served{resources: map[string][]string{"v1": {workerv1.Resource}}}},
		"nothing is installed":                        {},
		"nothing answers":                             {discovery: served{broken: map[string]bool{"v1": true, "v1alpha1": true}}, fails: true},
		"a version was chosen by flag":                {discovery: served{resources: map[string][]string{"v1": both, "v1alpha1": both}}, fixed: "v1alpha1", version: "v1alpha1"},
	} {
		t.Run(name, func(t *testing.T) {
			v := newVersions(&test.discovery, test.fixed)
			where, found, err := v.of(t.Context(), target.Resource)
			require.Equal(t, test.fails, err != nil)
			if test.fails {
				return
			}
			require.Equal(t, test.version != "", found)
			require.Equal(t, gvr(test.version, target.Resource), where)
		})
	}
}

func TestTheVersionIsLookedUpOnceUntilItIsForgotten(t *testing.T) {
	d := &served{resources: map[string][]string{"v1": {workerv1.Resource, target.Resource}}}
	v := newVersions(d, "")
	for range 3 {
		_, found, err := v.of(t.Context(), workerv1.Resource)
		require.NoError(t, err)
		require.True(t, found)
	}
	require.Equal(t, 1, d.asked)

	v.forget()
	d.resources = map[string][]string{"v1": {target.Resource}, "v1alpha1": {workerv1.Resource, target.Resource}}
	where, _, err := v.of(t.Context(), workerv1.Resource)
	require.NoError(t, err)
	require.Equal(t, "v1alpha1", where.Version)
}

func TestWhatIsNotInstalledYetIsLookedForAgain(t *testing.T) {
	d := &served{}
	v := newVersions(d, "")
	_, found, err := v.of(t.Context(), target.Resource)
	require.NoError(t, err)
	require.False(t, found)

	d.resources = map[string][]string{"v1": {workerv1.Resource, target.Resource}}
	_, found, err = v.of(t.Context(), target.Resource)
	require.NoError(t, err)
	require.True(t, found)
}
