package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	observationv1 "gpustack.ai/model-deployment-scaler/api/proto/modelscaler/observation/v1"
	"gpustack.ai/model-deployment-scaler/dev/harness"
	"gpustack.ai/model-deployment-scaler/internal/observe"
)

const (
	// certificateSettle is twice what it takes here until a sampler has read a changed Secret: a second to the files, two more until
	// the program looks at them.
	certificateSettle = 6 * time.Second
	watchedModels     = 12
)

// The system that it starts was installed without any certificate. Parallel, on a system of its own: others keep the authority.
func TestCertificatesAreExchangedUnderLoad(t *testing.T) {
	t.Parallel()
	cluster, err := harness.Start(context.Background(), harness.Options{Programs: func(deployments []*appsv1.Deployment) {
		for _, d := range deployments {
			if d.Name == "decider" {
				container := &d.Spec.Template.Spec.Containers[0]
				container.Args = append(container.Args, fmt.Sprintf("--certificate-settle-time=%s", certificateSettle))
			}
		}
	}})
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(cluster.Logs(40))
		}
		require.NoError(t, cluster.Stop())
	})
	s := onStage(t, cluster)
	s.observe(watchedModels)

	seen := s.readings()
	met := s.meet()
	began := time.Now()
	s.complete(func() { s.exchange(func() {}, func() {}) })
	s.exchange(func() { s.roll("sampler") }, func() { s.roll("sampler"); s.roll("decider") })
	s.complete(func() { s.exchange(func() {}, func() {}) })
	t.Logf("exchanged the authority three times in %s: %s; %s", time.Since(began).Round(time.Second), seen.end(), met.end())
	require.Len(t, seen.roles, watchedModels)
	require.Empty(t, seen.unusable)
	require.Greater(t, met.accepted, 20)
	require.Empty(t, met.refused)
	for _, component := range harness.Components {
		s.unharmed(component)
	}
}

// exchange the authority by taking its key away, and do something else between the steps.
func (s *stage) exchange(whenTrusted, whenSigning func()) {
	s.t.Helper()
	before := s.keys("decider-tls")
	samplers := s.keys("sampler-tls")
	_, err := s.Kube.CoreV1().Secrets(harness.Namespace).Patch(s.t.Context(), "decider-authority", types.MergePatchType, []byte(`{"data":{"ca.key":null}}`), metav1.PatchOptions{})
	require.NoError(s.t, err)
	s.eventually("both ends trust a new authority beside the old", func() bool { return s.trusted("decider-tls") == 2 && s.trusted("sampler-tls") == 2 })
	require.Equal(s.t, before["tls.crt"], s.keys("decider-tls")["tls.crt"], "the old one has signed what is used")
	require.Equal(s.t, samplers["tls.crt"], s.keys("sampler-tls")["tls.crt"])
	whenTrusted()
	s.eventually("the new one signs", func() bool {
		return !bytes.Equal(before["tls.crt"], s.keys("decider-tls")["tls.crt"]) && !bytes.Equal(samplers["tls.crt"], s.keys("sampler-tls")["tls.crt"])
	})
	whenSigning()
	s.eventually("the old one is trusted no longer", func() bool { return s.trusted("decider-tls") == 1 && s.trusted("sampler-tls") == 1 })
	require.NotEqual(s.t, before["ca.crt"], s.keys("decider-tls")["ca.crt"])
}

func (s *stage) keys(secret string) map[string][]byte {
	s.t.Helper()
	found, err := s.Kube.CoreV1().Secrets(harness.Namespace).Get(s.t.Context(), secret, metav1.GetOptions{})
	require.NoError(s.t, err)
	return found.Data
}

// trusted counts the authorities of one end.
func (s *stage) trusted(secret string) int {
	s.t.Helper()
	return bytes.Count(s.keys(secret)["ca.crt"], []byte("BEGIN CERTIFICATE"))
}

// roll the first Pod of a component, of deciders the one that leads.
func (s *stage) roll(component string) {
	s.t.Helper()
	name := s.Pods(component)[0].Name
	if component == "decider" {
		leader, err := s.Leader(s.t.Context())
		require.NoError(s.t, err)
		name = leader
	}
	require.NoError(s.t, s.Runner.Replace(s.t.Context(), name))
}

// during runs something in the background until its end is asked for.
type during struct {
	stop func()
	done sync.WaitGroup
}

func (d *during) run(t *testing.T, what func(context.Context)) {
	ctx, cancel := context.WithCancel(t.Context())
	d.stop = cancel
	d.done.Go(func() { what(ctx) })
	t.Cleanup(d.finish)
}

func (d *during) finish() { d.stop(); d.done.Wait() }

// complete does something, and requires that the leader has received every observation that samplers have sent meanwhile. No
// process may come or go.
func (s *stage) complete(do func()) {
	s.t.Helper()
	sentBefore, missingBefore := s.transfers()
	do()
	sent, missing := s.transfers()
	s.t.Logf("%.0f observations were sent, %.0f were not received", sent-sentBefore, missing-missingBefore)
	require.InDelta(s.t, missingBefore, missing, 0)
	require.Greater(s.t, sent-sentBefore, 2.0*watchedModels)
	require.Zero(s.t, s.all("sampler", "mds_stream_observations_dropped_total", nil))
}

// transfers are the observations that were sent so far, and how many of them the leader has not received when none is under way:
// on a busy machine one can be for longer than a look takes, so that is what ten looks agree on.
func (s *stage) transfers() (sent, missing float64) {
	s.t.Helper()
	leader, _ := s.deciders()
	looks := map[float64]int{}
	s.eventually("moments without observations", func() bool {
		before, _ := s.metric(leader, "mds_pool_observations_received_total", nil)
		sent = s.all("sampler", "mds_stream_observations_sent_total", nil)
		received, _ := s.metric(leader, "mds_pool_observations_received_total", nil)
		if missing = sent - received; before == received {
			looks[missing]++
		}
		return before == received && looks[missing] == 10
	})
	return sent, missing
}

// readings are what plans are made on, as the leader tells of it.
type readings struct {
	during
	roles          map[string]bool
	plans, watches int
	unusable       []string
}

// readings until end is called. A watch ends with its leader.
func (s *stage) readings() *readings {
	s.t.Helper()
	r := &readings{roles: map[string]bool{}}
	token := s.viewer("reader", serviceName)
	r.run(s.t, func(ctx context.Context) {
		for ctx.Err() == nil {
			opened := false
			_ = s.watchFrom(ctx, token, func(o *observationv1.ScalerObservation) { // it ends with the leader or the test
				if !opened {
					opened = true
					r.watches++
				}
				r.take(o)
			})
			pause(ctx, often)
		}
	})
	return r
}

func (r *readings) take(o *observationv1.ScalerObservation) {
	r.plans++
	r.roles[o.GetScaler()] = true
	if state := observe.SignalState(o.GetPlan().GetSignalState()); state != observe.Fresh && state != observe.Idle {
		r.unusable = append(r.unusable, fmt.Sprintf("%s was %s", o.GetScaler(), state))
	}
}

func (r *readings) end() string {
	r.finish()
	return fmt.Sprintf("%d plans for %d roles, told of in %d watches, of which %d without a usable reading", r.plans, len(r.roles), r.watches, len(r.unusable))
}

// watchFrom the leader until it ends.
func (s *stage) watchFrom(ctx context.Context, token string, take func(*observationv1.ScalerObservation)) error {
	secret, err := s.Kube.CoreV1().Secrets(harness.Namespace).Get(ctx, "decider-tls", metav1.GetOptions{})
	if err != nil {
		return err
	}
	holder, err := s.Holder(ctx)
	if err != nil {
		return err
	}
	_, address, _ := strings.Cut(holder, "@")
	config := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: serviceName}
	config.RootCAs.AppendCertsFromPEM(secret.Data["ca.crt"])
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(credentials.NewTLS(config)))
	if err != nil {
		return err
	}
	defer conn.Close()
	watch, err := observationv1.NewObservationServiceClient(conn).Watch(
		metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token),
		&observationv1.ObservationServiceWatchRequest{Selector: &observationv1.ObservationSelector{Namespace: s.namespace}})
	for err == nil {
		var m *observationv1.ObservationServiceWatchResponse
		if m, err = watch.Recv(); m.GetObservation() != nil {
			take(m.GetObservation())
		}
	}
	return err
}

// meetings are connections that a decider could make just now to samplers: both ends have to accept each other at any time.
type meetings struct {
	during
	accepted int
	refused  []string
}

func (s *stage) meet() *meetings {
	s.t.Helper()
	m := &meetings{}
	m.run(s.t, func(ctx context.Context) {
		for ctx.Err() == nil {
			if secret, err := s.Kube.CoreV1().Secrets(harness.Namespace).Get(ctx, "decider-tls", metav1.GetOptions{}); err == nil {
				for _, p := range s.Pods("sampler") {
					m.note(greet(ctx, grpcAddress(p), secret.Data))
				}
			}
			pause(ctx, often)
		}
	})
	return m
}

func (m *meetings) end() string {
	m.finish()
	return fmt.Sprintf("%d new connections were accepted, %d refused", m.accepted, len(m.refused))
}

// note an outcome; that a sampler is not there at the moment says nothing.
func (m *meetings) note(err error) {
	if err == nil {
		m.accepted++
	} else if strings.Contains(err.Error(), "tls: ") || strings.Contains(err.Error(), "x509: ") {
		m.refused = append(m.refused, err.Error())
	}
}

// greet a sampler as a decider does: it has accepted when it says something.
func greet(ctx context.Context, address string, decider map[string][]byte) error {
	pair, err := tls.X509KeyPair(decider["tls.crt"], decider["tls.key"])
	if err != nil {
		return err
	}
	config := &tls.Config{
		RootCAs: x509.NewCertPool(), ServerName: "sampler." + harness.Namespace + ".svc", Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2"},
	}
	config.RootCAs.AppendCertsFromPEM(decider["ca.crt"])
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	conn, err := (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return err
	}
	_, err = conn.Read(make([]byte, 1))
	return err
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
