package cli

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"gpustack.ai/model-deployment-scaler/internal/certs"
	"gpustack.ai/model-deployment-scaler/internal/certs/certstest"
	"gpustack.ai/model-deployment-scaler/internal/stream/observations"
)

const serviceName = "decider.model-deployment-scaler.svc"

// registrar knows the token "good" and the user ann.
type registrar struct{}

func (registrar) Authenticate(_ context.Context, token string) (authenticationv1.UserInfo, string, error) {
	if token != "good" {
		return authenticationv1.UserInfo{}, "it is for another audience", nil
	}
	return authenticationv1.UserInfo{Username: "ann"}, "", nil
}

func (registrar) MayWatch(_ context.Context, user authenticationv1.UserInfo, namespace string) (string, error) {
	if user.Username != "ann" || namespace != "models" {
		return user.Username + " may not", nil
	}
	return "", nil
}

// system is a decider over TLS, and what is needed to reach it, as files.
type system struct {
	*decider
	people  *certstest.Authority
	dir, ca string
}

func startSystem(t *testing.T) *system {
	t.Helper()
	ours, err := certstest.NewAuthority("ours")
	require.NoError(t, err)
	s := &system{dir: t.TempDir()}
	s.people, err = certstest.NewAuthority("people")
	require.NoError(t, err)
	require.NoError(t, ours.WriteLeaf(s.dir, serviceName))
	s.ca = filepath.Join(s.dir, "ca.crt")
	source, err := certs.Load(certs.Files{Cert: filepath.Join(s.dir, "tls.crt"), Key: filepath.Join(s.dir, "tls.key"), CA: s.ca}, zap.NewNop())
	require.NoError(t, err)
	users, err := certs.Load(certs.Files{CA: s.file(t, "people.crt", s.people.PEM)}, zap.NewNop())
	require.NoError(t, err)
	s.decider = startDecider(t, "127.0.0.1:0", func(o *observations.Options) {
		o.Server = source.ServerAsking()
		o.Access = &observations.AccessOptions{Audience: serviceName, Reviewer: registrar{}, People: users.VerifyClient,
			Copies: func([]*x509.Certificate) error { return errors.New("none here") }}
	})
	s.Lead().Publish(pass(5))
	return s
}

func (s *system) file(t *testing.T, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(s.dir, name)
	require.NoError(t, os.WriteFile(path, data, 0o600))
	return path
}

// kubeconfig of a user of an API server.
func (s *system) kubeconfig(t *testing.T, server string, user clientcmdapi.AuthInfo) string {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: server}
	config.AuthInfos["u"] = &user
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u", Namespace: "models"}
	config.CurrentContext = "x"
	path := filepath.Join(s.dir, "kubeconfig")
	require.NoError(t, clientcmd.WriteToFile(*config, path))
	return path
}

func (s *system) person(t *testing.T, name string) clientcmdapi.AuthInfo {
	t.Helper()
	cert, key, err := s.people.Person(name)
	require.NoError(t, err)
	return clientcmdapi.AuthInfo{ClientCertificateData: cert, ClientKeyData: key}
}

func TestWatchSaysWhoCalls(t *testing.T) {
	s := startSystem(t)
	good, bad := s.file(t, "good", []byte("good\n")), s.file(t, "bad", []byte("bad"))
	nowhere := "https://127.0.0.1:1"
	for name, row := range map[string]struct {
		user clientcmdapi.AuthInfo
		args []string
		want string // of the error; empty: it is served
	}{
		"a token":                       {clientcmdapi.AuthInfo{}, []string{"--token-file", good}, ""},
		"the kubeconfig's certificate":  {s.person(t, "ann"), nil, ""},
		"a token that is not accepted":  {clientcmdapi.AuthInfo{}, []string{"--token-file", bad}, "the token is not accepted: it is for another audience; send a bearer token for audience " + serviceName},
		"a user without the right":      {s.person(t, "bob"), nil, "bob may not"},
		"another namespace":             {s.person(t, "ann"), []string{"-n", "other"}, "ann may not"},
		"all namespaces":                {s.person(t, "ann"), []string{"-A"}, "ann may not"},
		"the API server's token":        {clientcmdapi.AuthInfo{Token: "good"}, nil, "its token is for the API server alone; give --service-account NAME or --token-file FILE"},
		"a token that is not there":     {clientcmdapi.AuthInfo{}, []string{"--token-file", "nowhere"}, "--token-file: open nowhere"},
		"an authority that is not":      {clientcmdapi.AuthInfo{}, []string{"--token-file", good, "--ca-file", good}, "no certificate in it"},
		"an authority that is not ours": {clientcmdapi.AuthInfo{}, []string{"--token-file", good, "--ca-file", filepath.Join(s.dir, "people.crt")}, "verifying the server's certificate"},
		"a service of another name":     {clientcmdapi.AuthInfo{}, []string{"--token-file", good, "--service-name", "other.svc"}, "give --ca-file, or --service-name"},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"--address", s.address, "--ca-file", s.ca, "--kubeconfig", s.kubeconfig(t, nowhere, row.user)}, row.args...)
			w := startWatch(t, args...)
			if row.want != "" {
				require.ErrorContains(t, w.end(), row.want)
				return
			}
			w.prints("leader decider-0")
			w.interrupt()
			require.NoError(t, w.end())
		})
	}
}

// apiServer plays what watch needs of one: Pods, tokens, and forwarded ports by SPDY.
func apiServer(t *testing.T, decider string, tokens *int) string {
	t.Helper()
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, object any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(object)
	}
	mux.HandleFunc("GET /api/v1/namespaces/model-deployment-scaler/pods", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("labelSelector") != deciderLabels {
			http.Error(w, "these are not the labels of deciders", http.StatusBadRequest)
			return
		}
		pods := &corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: make([]corev1.Pod, 2)}
		for i := range pods.Items {
			pods.Items[i].Name, pods.Items[i].Namespace = []string{"decider-0", "decider-1"}[i], "model-deployment-scaler"
		}
		pods.Items[1].Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		answer(w, pods)
	})
	mux.HandleFunc("POST /api/v1/namespaces/models/serviceaccounts/viewer/token", func(w http.ResponseWriter, r *http.Request) {
		var request authenticationv1.TokenRequest
		body, _ := io.ReadAll(r.Body)
		_, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, &request)
		if err != nil || !slices.Equal(request.Spec.Audiences, []string{serviceName}) {
			http.Error(w, "this is not a request for the decider's audience", http.StatusBadRequest)
			return
		}
		*tokens++
		request.APIVersion, request.Kind = "authentication.k8s.io/v1", "TokenRequest"
		request.Status = authenticationv1.TokenRequestStatus{Token: "good", ExpirationTimestamp: metav1.NewTime(time.Now().Add(time.Hour))}
		answer(w, request)
	})
	mux.HandleFunc("/api/v1/namespaces/model-deployment-scaler/pods/decider-1/portforward", func(w http.ResponseWriter, r *http.Request) {
		forwardPort(w, r, decider)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

// forwardPort is the kubelet's end of a forwarded port.
func forwardPort(w http.ResponseWriter, r *http.Request, to string) {
	if r.Header.Get("Sec-Websocket-Key") != "" {
		http.Error(w, "this server is too old for that", http.StatusBadRequest)
		return
	}
	if _, err := httpstream.Handshake(r, w, []string{"portforward.k8s.io"}); err != nil {
		return
	}
	conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, _ <-chan struct{}) error {
		if s.Headers().Get(corev1.StreamType) != corev1.StreamTypeData {
			return nil
		}
		target, err := net.Dial("tcp", to)
		if err != nil {
			return err
		}
		go func() { _, _ = io.Copy(target, s); _ = target.Close() }()
		go func() { _, _ = io.Copy(s, target); _ = s.Reset() }()
		return nil
	})
	if conn != nil {
		<-conn.CloseChan()
	}
}

func TestWatchFindsADeciderThroughTheAPIServer(t *testing.T) {
	s := startSystem(t)
	tokens := 0
	kubeconfig := s.kubeconfig(t, apiServer(t, s.address, &tokens), clientcmdapi.AuthInfo{})
	w := startWatch(t, "chat", "--ca-file", s.ca, "--kubeconfig", kubeconfig, "--service-account", "viewer")
	w.prints("leader decider-0")
	w.prints("decode")

	s.stop()
	w.prints("watching again")
	w.interrupt()
	require.NoError(t, w.end())
	require.Equal(t, 1, tokens, "a token serves until it is old")
}

func TestWatchSaysWhyNoDeciderIsFound(t *testing.T) {
	s := startSystem(t)
	tokens := 0
	server := apiServer(t, s.address, &tokens)
	token := s.file(t, "good", []byte("good"))
	for name, row := range map[string]struct {
		args []string
		want string
	}{
		"a namespace that may not be read": {[]string{"--token-file", token, "--decider-namespace", "other"}, "you need the right to list Pods there; or give --address"},
		"an account that there is not":     {[]string{"--service-account", "nobody"}, "making a token of service account models/nobody"},
		"an account without a name":        {[]string{"--service-account", "models/"}, "give NAMESPACE/NAME"},
		"an account of no namespace":       {[]string{"--service-account", "viewer", "-A"}, "give NAMESPACE/NAME"},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"--ca-file", s.ca, "--kubeconfig", s.kubeconfig(t, server, clientcmdapi.AuthInfo{})}, row.args...)
			require.ErrorContains(t, startWatch(t, args...).end(), row.want)
		})
	}
}
