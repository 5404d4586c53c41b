package decider

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
)

// The answer of an own write and what the watch tells come in any order; neither takes the place of what is newer.
func TestTheNewerOfCacheAndAnswerCounts(t *testing.T) {
	scaler := func(uid types.UID, version string) *workerv1.ModelDeploymentScaler {
		return &workerv1.ModelDeploymentScaler{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s", UID: uid, ResourceVersion: version}}
	}
	name := types.NamespacedName{Namespace: "ns", Name: "s"}
	memories := newMemories()
	m := memories.of(name, scaler("one", "9"))
	require.Equal(t, "9", m.newest(scaler("one", "9")).ResourceVersion)

	m.wrote(scaler("one", "11"))
	require.Equal(t, "11", m.newest(scaler("one", "10")).ResourceVersion, "the cache lags behind")
	require.Equal(t, "12", m.newest(scaler("one", "12")).ResourceVersion, "the answer is late")
	require.Equal(t, "100", m.newest(scaler("one", "100")).ResourceVersion, "versions are numbers, not texts")

	again := memories.of(name, scaler("two", "13"))
	require.NotSame(t, m, again, "a namesake is somebody else")
	require.Equal(t, "13", again.newest(scaler("two", "13")).ResourceVersion)
	m.wrote(scaler("one", "14")) // a late answer revives nobody
	require.False(t, memories.has(name, "one"))
	require.True(t, memories.has(name, "two"))
}
