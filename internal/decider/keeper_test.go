package decider

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"gpustack.ai/model-deployment-scaler/dev/testcluster"
	"gpustack.ai/model-deployment-scaler/internal/certs"
	"gpustack.ai/model-deployment-scaler/internal/certs/authority"
	"gpustack.ai/model-deployment-scaler/internal/kube"
	"gpustack.ai/model-deployment-scaler/internal/stream"
)

// keeping is a namespace where certificates are kept, without samplers.
type keeping struct {
	*testing.T
	core    kubernetes.Interface
	client  dynamic.Interface
	options *Options
	lost    atomic.Bool           // the Lease
	unmoved atomic.Pointer[error] // what asking the samplers yields
	logs    *observer.ObservedLogs
	log     *zap.Logger
}

func newKeeping(t *testing.T) *keeping {
	t.Helper()
	config := testcluster.Get(t).Config(t)
	k := &keeping{T: t, options: NewOptions()}
	var err error
	k.core, err = kubernetes.NewForConfig(config)
	require.NoError(t, err)
	k.client, err = dynamic.NewForConfig(config)
	require.NoError(t, err)
	namespace, err := k.core.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "certificates-"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	k.options.Namespace, k.options.CertificateSettleTime = namespace.Name, 5*time.Second
	k.unmoved.Store(new(error))
	core, logs := observer.New(zap.InfoLevel)
	k.log, k.logs = zap.New(core), logs
	for _, name := range []string{authoritySecret, deciderSecret, samplerSecret} {
		k.create(name)
	}
	return k
}

func (k *keeping) create(name string) {
	k.Helper()
	_, err := k.core.CoreV1().Secrets(k.options.Namespace).Create(k.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	require.NoError(k, err)
}

// run something until the test ends.
func (k *keeping) run(what func(context.Context) error) {
	k.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- what(ctx) }()
	k.Cleanup(func() { cancel(); require.NoError(k, <-ended) })
}

// copy of the decider, as far as its own certificate goes.
func (k *keeping) copy() *follower {
	k.Helper()
	f := newFollower(k.client, k.options, k.log)
	k.run(f.Run)
	return f
}

func (k *keeping) lead() *keeper {
	k.Helper()
	write := func(ctx context.Context) (context.Context, context.CancelFunc, error) {
		if k.lost.Load() {
			return nil, nil, kube.ErrLeaseLost
		}
		ctx, cancel := context.WithCancel(ctx)
		return ctx, cancel, nil
	}
	made := newKeeper(k.client, k.options, write, func(context.Context, []byte) error { return *k.unmoved.Load() }, k.log)
	k.run(made.Run)
	return made
}

func (k *keeping) secret(name string) map[string][]byte {
	k.Helper()
	s, err := k.core.CoreV1().Secrets(k.options.Namespace).Get(k.Context(), name, metav1.GetOptions{})
	require.NoError(k, err)
	return s.Data
}

func (k *keeping) put(name string, data map[string][]byte) {
	k.Helper()
	patch, err := json.Marshal(map[string]any{"data": data})
	require.NoError(k, err)
	_, err = k.core.CoreV1().Secrets(k.options.Namespace).Patch(k.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(k, err)
}

func (k *keeping) eventually(what string, condition func() bool) {
	k.Helper()
	require.Eventually(k, condition, enough, 20*time.Millisecond, what)
}

// agreed says whether both ends have certificates that the other accepts, all trust so many authorities, and the copies use
// what is kept.
func (k *keeping) agreed(authorities int, copies ...*follower) bool {
	k.Helper()
	kept, deciders, samplers := k.secret(authoritySecret), k.secret(deciderSecret), k.secret(samplerSecret)
	bundle := kept["ca.crt"]
	for _, f := range copies {
		if f.check() != nil || !bytes.Equal(f.source.Cert(), deciders["tls.crt"]) {
			return false
		}
	}
	both := authority.Purpose{Names: []string{k.options.ServiceName}, Usage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	server := authority.Purpose{Names: []string{k.options.SamplerServerName}, Usage: both.Usage[:1]}
	return len(kept["ca.key"]) > 0 && bytes.Count(bundle, []byte("BEGIN")) == authorities &&
		bytes.Equal(bundle, deciders["ca.crt"]) && bytes.Equal(bundle, samplers["ca.crt"]) &&
		both.Verify(bundle, deciders["tls.crt"], time.Now()) == nil && server.Verify(bundle, samplers["tls.crt"], time.Now()) == nil
}

func TestTheLeaderKeepsCertificatesAndTheOthersFollow(t *testing.T) {
	k := newKeeping(t)
	standby := k.copy()
	k.eventually("a copy says what it waits for", func() bool {
		return standby.check().Error() == "reading secret decider-tls: there is no certificate in it yet: the decider that leads makes it"
	})

	t.Log("whoever leads fills the Secrets, and every copy uses what is in them")
	leader := k.lead()
	copies := []*follower{standby, k.copy()}
	k.eventually("all agree", func() bool { return k.agreed(1, copies...) })
	require.Len(t, k.secret(deciderSecret), 3, "the authority's key stays where it is")
	require.Len(t, k.secret(samplerSecret), 3)
	first := k.secret(authoritySecret)

	t.Log("what somebody garbles is mended, and never used")
	before := k.secret(deciderSecret)["tls.crt"]
	k.put(deciderSecret, map[string][]byte{"tls.key": []byte("garbage")})
	k.eventually("it is mended", func() bool { return k.agreed(1, copies...) && !bytes.Equal(before, k.secret(deciderSecret)["tls.crt"]) })
	k.put(samplerSecret, map[string][]byte{"ca.crt": []byte("garbage"), "tls.crt": k.secret(deciderSecret)["tls.crt"]})
	k.eventually("it is mended", func() bool { return k.agreed(1, copies...) })
	foreign, err := authority.New("foreign", authority.Validity{From: time.Now().Add(-time.Hour), Until: time.Now().Add(time.Hour)})
	require.NoError(t, err)
	k.put(deciderSecret, map[string][]byte{"ca.crt": foreign.PEM})
	k.eventually("it is mended", func() bool { return k.agreed(1, copies...) })
	require.Equal(t, first, k.secret(authoritySecret), "for all of that the authority was left alone")

	t.Run("an authority is exchanged in three steps", func(t *testing.T) { k.exchange(copies) })

	t.Log("without the Lease nothing is written")
	k.lost.Store(true)
	k.put(samplerSecret, nil)
	k.eventually("it is said", func() bool { return errors.Is(leader.Err(), kube.ErrLeaseLost) })
	require.NotContains(t, k.secret(samplerSecret), "tls.crt")
	k.lost.Store(false)
	k.eventually("the next leader mends it", func() bool { return k.agreed(1, copies...) })

	t.Log("without the Secret copies go on, and a new one says what is missing")
	require.NoError(t, k.core.CoreV1().Secrets(k.options.Namespace).Delete(t.Context(), deciderSecret, metav1.DeleteOptions{}))
	late := k.copy()
	k.eventually("a copy says what it waits for", func() bool {
		return late.check() != nil && late.check().Error() != "the certificates were not read yet"
	})
	require.ErrorContains(t, late.check(), "reading secret decider-tls, which the manifests install")
	require.NoError(t, standby.check())
	k.create(deciderSecret)
	k.eventually("all agree", func() bool { return k.agreed(1, append(copies, late)...) })
	for _, entry := range k.logs.All() {
		line, err := json.Marshal(entry.ContextMap())
		require.NoError(t, err)
		require.NotContains(t, string(line), "PRIVATE")
	}
}

// exchange the authority, whose key was lost.
func (k *keeping) exchange(copies []*follower) {
	k.unmoved.Store(new(errors.New("sampler-0 lags behind")))
	old := k.secret(authoritySecret)["ca.crt"]
	deciders, samplers := k.secret(deciderSecret)["tls.crt"], k.secret(samplerSecret)["tls.crt"]
	began := time.Now()
	k.put(authoritySecret, map[string][]byte{"ca.key": nil})
	k.eventually("a new authority is trusted beside the old", func() bool { return k.agreed(2, copies...) })
	require.True(k, bytes.HasSuffix(k.secret(authoritySecret)["ca.crt"], old))
	require.Equal(k, deciders, k.secret(deciderSecret)["tls.crt"], "the old one has signed what is served")
	require.Equal(k, samplers, k.secret(samplerSecret)["tls.crt"])

	k.eventually("it signs", func() bool {
		return k.agreed(2, copies...) && !bytes.Equal(deciders, k.secret(deciderSecret)["tls.crt"]) && !bytes.Equal(samplers, k.secret(samplerSecret)["tls.crt"])
	})
	require.Greater(k, time.Since(began), k.options.CertificateSettleTime, "not before it has settled")
	k.eventually("the old one stays while a sampler serves a certificate of it", func() bool {
		return k.logs.FilterMessageSnippet("trusts an older authority for longer").Len() == 1
	})
	require.True(k, k.agreed(2, copies...))
	k.unmoved.Store(new(error))
	k.eventually("then it goes", func() bool { return k.agreed(1, copies...) })
	require.False(k, bytes.Contains(k.secret(authoritySecret)["ca.crt"], bytes.TrimSpace(old)))
}

func TestSamplersAreAskedWhatTheyServe(t *testing.T) {
	now := time.Now()
	valid := authority.Validity{From: now.Add(-time.Hour), Until: now.Add(time.Hour)}
	older, err := authority.New("older", valid)
	require.NoError(t, err)
	newer, err := authority.New("newer", valid)
	require.NoError(t, err)
	bundle := append(bytes.Clone(newer.PEM), older.PEM...)
	source := func(by *authority.Authority, name string) *certs.Source {
		cert, key, err := by.Leaf([]string{name}, valid, x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth)
		require.NoError(t, err)
		s := certs.Empty(zap.NewNop())
		require.NoError(t, s.Use(cert, key, bundle))
		return s
	}
	const name = "sampler.test.svc"
	serve := func(s *certs.Source) stream.Member {
		server := httptest.NewUnstartedServer(http.NotFoundHandler())
		server.Config.ErrorLog, server.TLS = zap.NewStdLog(zap.NewNop()), s.Server(certs.AllowNames("decider.test.svc"))
		server.StartTLS()
		t.Cleanup(server.Close)
		return stream.Member{Name: "sampler", Address: server.Listener.Addr().String()}
	}
	moved, lagging, stranger := serve(source(newer, name)), serve(source(older, name)), serve(source(newer, "other.svc"))
	client := source(older, "decider.test.svc")
	for title, row := range map[string]struct {
		members []stream.Member
		says    string
	}{
		"there is none":                    {nil, ""},
		"all serve what the newest signed": {[]stream.Member{moved, moved}, ""},
		"one serves what an older signed":  {[]stream.Member{moved, lagging}, "asking sampler sampler for its certificate: it serves one of an older authority still"},
		"one is somebody else":             {[]stream.Member{stranger, moved}, "verifying the server's certificate for " + name},
		"one is not there":                 {[]stream.Member{{Name: "gone", Address: freeAddress(t)}}, "asking sampler gone for its certificate"},
	} {
		t.Run(title, func(t *testing.T) {
			err := askSamplers(t.Context(), client.Client(name), row.members, bundle)
			if row.says == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, row.says)
		})
	}
}
