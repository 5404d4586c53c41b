package decider

import (
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/decide"
	"gpustack.ai/model-deployment-scaler/internal/kube"
)

// memory is what is kept of one scaler between passes. Only its own pass touches it, and passes of one scaler never overlap;
// uid, which never changes, and settled are read by others too.
type memory struct {
	uid types.UID
	// state is the planner's.
	state decide.Packed
	// planned says that state is a pass's, not just what the stored status says.
	planned bool
	// latest is the scaler's metadata as our last write of it was answered; nil before.
	latest *metav1.ObjectMeta
	// stored is the status that the API server holds, as far as is known and without histories, written by us at storedAt
	// (zero: not yet).
	stored   workerv1.ModelDeploymentScalerStatus
	storedAt time.Time
	// unsaved says that the target was written and the status of that is not stored yet: until it is, nothing is written to
	// the target again (D33).
	unsaved bool
	// settled says that a pass was reported since the memory began: from then on nothing is rebuilt. Others read it.
	settled atomic.Bool
}

// restore begins anew with what the status holds. The uid stays: others may be asking for it (has).
func (m *memory) restore(s *workerv1.ModelDeploymentScaler) {
	m.state, m.stored = decide.StateFromStatus(s.Status).Pack(), kube.WithoutHistories(s.Status)
	m.planned, m.latest, m.storedAt, m.unsaved = false, nil, time.Time{}, false
	m.settled.Store(false)
}

// newest is the newer of the scaler at hand and of what our last write was answered: a cache may lag behind.
func (m *memory) newest(s *workerv1.ModelDeploymentScaler) *metav1.ObjectMeta {
	if m.latest == nil {
		return &s.ObjectMeta
	}
	if order, err := resourceversion.CompareResourceVersion(m.latest.ResourceVersion, s.ResourceVersion); err == nil && order > 0 {
		return m.latest
	}
	return &s.ObjectMeta
}

// wrote remembers what a write of the scaler was answered.
func (m *memory) wrote(s *workerv1.ModelDeploymentScaler) {
	m.latest = &metav1.ObjectMeta{
		Namespace: s.Namespace, Name: s.Name, UID: s.UID, ResourceVersion: s.ResourceVersion, Finalizers: s.Finalizers,
	}
}

// memories of all scalers. The map alone is shared.
type memories struct {
	mu     sync.Mutex
	byName map[types.NamespacedName]*memory
}

func newMemories() *memories { return &memories{byName: make(map[types.NamespacedName]*memory)} }

// of is the memory of this very scaler, restored from its status when there is none yet. A namesake's is forgotten.
func (m *memories) of(name types.NamespacedName, s *workerv1.ModelDeploymentScaler) *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.byName[name]
	if known == nil || known.uid != s.UID {
		known = &memory{uid: s.UID}
		known.restore(s)
		m.byName[name] = known
	}
	return known
}

// has says whether this very scaler has been planned before.
func (m *memories) has(name types.NamespacedName, uid types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.byName[name]
	return known != nil && known.uid == uid
}

// settled says whether a pass of this very scaler has been reported.
func (m *memories) settled(name types.NamespacedName, uid types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.byName[name]
	return known != nil && known.uid == uid && known.settled.Load()
}

// forget drops a memory and says whether there was one.
func (m *memories) forget(name types.NamespacedName) (found bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, found = m.byName[name]
	delete(m.byName, name)
	return found
}
