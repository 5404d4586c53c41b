package fleet

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"gpustack.ai/model-deployment-scaler/internal/sim"
)

// Fault of what a Pod serves.
type Fault int32

// The faults.
const (
	Healthy     Fault = iota
	Hangs             // takes the request and never answers
	Garbage           // answers 200 with bytes that are no exposition
	Failing           // answers 500
	Endless           // never stops sending
	LiesIdle          // says that it has no requests, whatever it serves
	LiesSwamped       // says that a million million requests wait
	LiesJumping       // its counters jump back and forth from one scrape to the next
)

// listeners are the HTTP servers of the Pods.
type listeners struct {
	page func(dst []byte, key sim.Key, id int) ([]byte, bool)

	mu      sync.Mutex
	serving map[name]*served
	faults  map[name]Fault
	running sync.WaitGroup
}

// served is the server of one Pod.
type served struct {
	key     sim.Key
	id      int
	leader  bool
	address string
	server  *http.Server
	fault   atomic.Int32
	lies    atomic.Int32 // how often it lied
}

func newListeners(page func([]byte, sim.Key, int) ([]byte, bool)) *listeners {
	return &listeners{page: page, serving: make(map[name]*served), faults: make(map[name]Fault)}
}

// open starts to serve a Pod, unless it is served already. Only the leader of an instance has metrics.
func (l *listeners) open(pod name, address netip.AddrPort, key sim.Key, id int, leader bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.serving[pod] != nil {
		return nil
	}
	listener, err := net.ListenTCP("tcp4", net.TCPAddrFromAddrPort(address))
	if err != nil {
		return fmt.Errorf("serving Pod %s/%s: %w", pod.namespace, pod.name, err)
	}
	s := &served{key: key, id: id, leader: leader, address: address.String()}
	s.fault.Store(int32(l.faults[pod]))
	s.server = &http.Server{Handler: l.handler(s), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute}
	l.serving[pod] = s
	l.running.Go(func() {
		_ = s.server.Serve(listener) // ends with Close, and says so
	})
	return nil
}

// shut stops serving a Pod and cuts its connections. A Pod that is gone for good is forgotten with its faults.
func (l *listeners) shut(pod name, forget bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.serving[pod]; s != nil {
		_ = s.server.Close() // the listener is closed whatever it says
		delete(l.serving, pod)
	}
	if forget {
		delete(l.faults, pod)
	}
}

func (l *listeners) closeAll() {
	l.mu.Lock()
	for pod, s := range l.serving {
		_ = s.server.Close() // as above
		delete(l.serving, pod)
	}
	l.mu.Unlock()
	l.running.Wait()
}

func (l *listeners) find(pod name) (*served, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s, ok := l.serving[pod]
	return s, ok
}

func (l *listeners) breaks(pod name, fault Fault) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	s, ok := l.serving[pod]
	if ok {
		s.fault.Store(int32(fault))
		l.faults[pod] = fault
	}
	return ok
}

func (l *listeners) addresses() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := make([]string, 0, len(l.serving))
	for _, s := range l.serving {
		list = append(list, s.address)
	}
	slices.Sort(list)
	return list
}
