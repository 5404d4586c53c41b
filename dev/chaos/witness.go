package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	observationv1 "gpustack.ai/model-deployment-scaler/api/proto/modelscaler/observation/v1"
	"gpustack.ai/model-deployment-scaler/dev/harness"
	"gpustack.ai/model-deployment-scaler/dev/runner"
)

const serviceName = "decider." + harness.Namespace + ".svc"

// witness hears what every decider tells of its passes (ObservationService), and remembers when it heard it.
type witness struct {
	mu    sync.Mutex
	plans []plan // as heard
	known map[pass]bool
}

// subject is a role as a scaler sees it.
type subject struct{ scaler, role string }

// pass tells apart what two copies tell of one.
type pass struct {
	leader string
	subject
	at time.Time
}

func newWitness() *witness { return &witness{known: make(map[pass]bool)} }

// follow all deciders until ctx ends.
func (s *witness) follow(ctx context.Context, w *world) {
	followed := make(map[string]bool)
	for pause(ctx, often) == nil {
		for _, p := range w.Pods("decider") {
			if !followed[p.Name] {
				followed[p.Name] = true
				go s.followOne(ctx, w, p)
			}
		}
	}
}

// followOne asks a decider again whenever an answer ends, until its Pod is gone.
func (s *witness) followOne(ctx context.Context, w *world, p runner.Pod) {
	there := func(other runner.Pod) bool { return other.Name == p.Name }
	for pause(ctx, often) == nil && slices.ContainsFunc(w.Pods("decider"), there) {
		_ = s.watch(ctx, w, p) // that it ends is the purpose
	}
}

func (s *witness) watch(ctx context.Context, w *world, p runner.Pod) error {
	config, err := w.asDecider(ctx)
	if err != nil {
		return err
	}
	conn, err := grpc.NewClient("passthrough:///"+p.IP+":9443", grpc.WithTransportCredentials(credentials.NewTLS(config)))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // fails only when closed twice
	stream, err := observationv1.NewObservationServiceClient(conn).Watch(ctx, &observationv1.ObservationServiceWatchRequest{
		Selector: &observationv1.ObservationSelector{Namespace: namespace},
	})
	if err != nil {
		return err
	}
	leader := ""
	var snapshot []*observationv1.ScalerObservation
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		if complete := m.GetSnapshotComplete(); complete != nil {
			leader = complete.GetLeader()
			s.hear(leader, snapshot...)
		}
		switch o := m.GetObservation(); {
		case o == nil:
		case leader == "":
			snapshot = append(snapshot, o)
		default:
			s.hear(leader, o)
		}
	}
}

// asDecider has the certificate that one copy of the decider shows to another.
func (w *world) asDecider(ctx context.Context) (*tls.Config, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	secret, err := w.Kube.CoreV1().Secrets(harness.Namespace).Get(ctx, "decider-tls", metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading the decider's certificate: %w", err)
	}
	pair, err := tls.X509KeyPair(secret.Data["tls.crt"], secret.Data["tls.key"])
	if err != nil {
		return nil, fmt.Errorf("reading the decider's certificate: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(secret.Data["ca.crt"]) {
		return nil, errors.New("reading the decider's authority: there is none")
	}
	return &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}, ServerName: serviceName, MinVersion: tls.VersionTLS13}, nil
}

func (s *witness) hear(leader string, told ...*observationv1.ScalerObservation) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range told {
		p := planOf(leader, o, now)
		if id := (pass{leader, p.subject, p.at}); !s.known[id] {
			s.known[id] = true
			s.plans = append(s.plans, p)
		}
	}
}

// since gives the plans that were heard after a time, oldest first.
func (s *witness) since(t time.Time) []plan {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, _ := slices.BinarySearchFunc(s.plans, t, func(p plan, t time.Time) int { return p.heard.Compare(t) })
	return slices.Clone(s.plans[i:])
}
