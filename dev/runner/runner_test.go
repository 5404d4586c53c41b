package runner

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"

	"gpustack.ai/model-deployment-scaler/dev/testcluster"
)

// TestMain plays the program of the Pods when the runner starts it.
func TestMain(m *testing.M) {
	switch os.Getenv("PLAY") {
	case "program":
		os.Exit(program(os.Args[1], os.Args[2]))
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		_, _ = os.Stdout.WriteString("ready")
		select {}
	}
	os.Exit(testcluster.Run(m))
}

// seen is what the program sees of its surroundings.
type seen struct {
	Secret, Kubeconfig string
	Pod                string
	PID                int
}

// program serves what it sees on address until SIGTERM.
func program(address, secretFile string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	mux := http.NewServeMux()
	mux.HandleFunc("/readyz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/seen", func(w http.ResponseWriter, _ *http.Request) {
		secret, _ := os.ReadFile(secretFile)
		_ = json.NewEncoder(w).Encode(seen{string(secret), os.Getenv("KUBECONFIG"), os.Getenv("POD_NAME"), os.Getpid()})
	})
	server := &http.Server{Addr: address, Handler: mux, ReadHeaderTimeout: time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.ListenAndServe(); err != http.ErrServerClosed {
		return 1
	}
	return 0
}

func deployment() *appsv1.Deployment {
	labels := map[string]string{"app": "program"}
	field := func(name, path string) corev1.EnvVar {
		return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}}
	}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "program", Namespace: "runner"},
		Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](2), Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{
				ServiceAccountName: "program", TerminationGracePeriodSeconds: ptr.To[int64](20),
				Volumes: []corev1.Volume{{Name: "s", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}}},
				Containers: []corev1.Container{{
					Name: "program", Image: "example/program:dev", Args: []string{"$(POD_IP):8080", "/mnt/s/key"},
					Env:   []corev1.EnvVar{field("POD_IP", "status.podIP"), field("POD_NAME", "metadata.name"), {Name: "PLAY", Value: "program"}},
					Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
					ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
						Path: "/readyz", Port: intstr.FromString("http"), Scheme: corev1.URISchemeHTTP}}, TimeoutSeconds: 10, PeriodSeconds: 1, SuccessThreshold: 1, FailureThreshold: 3},
					VolumeMounts: []corev1.VolumeMount{{Name: "s", MountPath: "/mnt/s"}},
				}},
			},
		}},
	}
}

func service() *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "program", Namespace: "runner"},
		Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "program"},
			Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromString("http")}}},
	}
}

// look asks a running program what it sees; ok is false while it does not answer.
func look(address string) (seen, bool) {
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get("http://" + address + "/seen")
	if err != nil {
		return seen{}, false
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	var s seen
	return s, json.Unmarshal(body, &s) == nil
}

func TestARenderedDeploymentRunsAsItWouldInACluster(t *testing.T) {
	cluster := testcluster.Get(t)
	client := kubernetes.NewForConfigOrDie(cluster.Config(t))
	ctx := t.Context()
	create(t, client, "runner")
	svc, err := client.CoreV1().Services("runner").Create(ctx, service(), metav1.CreateOptions{})
	require.NoError(t, err)

	dir := t.TempDir()
	r, err := New(Options{
		Config: cluster.Config(t), Binaries: map[string]string{"example/program": os.Args[0]}, Dir: dir,
		PodCIDR: netip.MustParsePrefix(cluster.Block + ".48.0/20"),
	})
	require.NoError(t, err)
	runCtx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(runCtx, []*appsv1.Deployment{deployment()}, []*corev1.Service{svc}) }()
	t.Cleanup(stop)
	t.Cleanup(func() { show(t, r, ended) })

	eventually(t, "both replicas become ready in the API too", func() bool {
		pods, err := client.CoreV1().Pods("runner").List(ctx, metav1.ListOptions{LabelSelector: "app=program"})
		return err == nil && len(pods.Items) == 2 && ready(pods.Items[0]) && ready(pods.Items[1])
	})
	view := r.Pods(map[string]string{"app": "program"})
	require.Len(t, view, 2)
	require.NotEqual(t, view[0].IP, view[1].IP, "each Pod has an address of its own")

	s, ok := look(view[0].IP + ":8080")
	require.True(t, ok)
	require.Equal(t, "one", s.Secret, "the mounted Secret is where the argument says")
	require.Equal(t, "program-0", s.Pod)
	requireWhoami(t, s.Kubeconfig, "system:serviceaccount:runner:program")

	eventually(t, "the Service forwards to a ready Pod", func() bool {
		_, ok := look(svc.Spec.ClusterIP + ":80")
		return ok
	})

	secret, err := client.CoreV1().Secrets("runner").Get(ctx, "s", metav1.GetOptions{})
	require.NoError(t, err)
	secret.StringData = map[string]string{"key": "two"}
	_, err = client.CoreV1().Secrets("runner").Update(ctx, secret, metav1.UpdateOptions{})
	require.NoError(t, err)
	eventually(t, "a changed Secret reaches the file", func() bool {
		s, _ := look(view[0].IP + ":8080")
		return s.Secret == "two"
	})

	require.NoError(t, r.Signal("program-0", syscall.SIGKILL))
	eventually(t, "a killed program is started again under the same address", func() bool {
		again, ok := look(view[0].IP + ":8080")
		return ok && again.PID != s.PID
	})
	eventually(t, "the restart is reported", func() bool {
		p, err := client.CoreV1().Pods("runner").Get(ctx, "program-0", metav1.GetOptions{})
		return err == nil && ready(*p) && p.Status.ContainerStatuses[0].RestartCount == 1
	})

	require.NoError(t, r.Replace(ctx, "program-0"))
	rolled := r.Pods(nil)
	require.Len(t, rolled, 2)
	require.Equal(t, []string{"program-1", "program-2"}, []string{rolled[0].Name, rolled[1].Name}, "another Pod has taken its place")
	require.NotContains(t, []string{view[0].IP, view[1].IP}, rolled[1].IP)
	require.True(t, rolled[1].Ready)
	require.ErrorContains(t, r.Replace(ctx, "program-0"), "no such pod")

	stop()
	require.NoError(t, <-ended)
	pods, err := client.CoreV1().Pods("runner").List(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	require.Empty(t, pods.Items)
	left, err := filepath.Glob(filepath.Join(dir, "pods", "*"))
	require.NoError(t, err)
	require.Empty(t, left, "no token and no key stays on disk")
}

func TestAProgramThatDoesNotEndWithinItsGracePeriodIsAFailure(t *testing.T) {
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	defer log.Close()
	p := &pod{runner: &Runner{}, binary: os.Args[0], object: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "stubborn"},
		Spec: corev1.PodSpec{TerminationGracePeriodSeconds: ptr.To[int64](1), Containers: []corev1.Container{{}}}}}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.live(ctx, []string{"PLAY=stubborn"}, log) }()
	eventually(t, "it runs", func() bool { info, err := log.Stat(); return err == nil && info.Size() > 0 })
	stop()
	require.ErrorContains(t, <-ended, "did not end within 1s and was killed")
}

func TestAPodWaitsForWhatItMounts(t *testing.T) {
	cluster := testcluster.Get(t)
	client := kubernetes.NewForConfigOrDie(cluster.Config(t))
	create(t, client, "waiting")
	require.NoError(t, client.CoreV1().Secrets("waiting").Delete(t.Context(), "s", metav1.DeleteOptions{}))
	r, err := New(Options{Config: cluster.Config(t), Dir: t.TempDir()})
	require.NoError(t, err)
	d := deployment()
	p := &pod{runner: r, object: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "waiting"}, Spec: d.Spec.Template.Spec}}
	require.True(t, apierrors.IsNotFound(p.writeVolumes(t.Context())))
	mounted := make(chan error, 1)
	go func() { mounted <- p.mount(t.Context()) }()
	_, err = client.CoreV1().Secrets("waiting").Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, StringData: map[string]string{"key": "late"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	require.NoError(t, <-mounted)
	content, err := os.ReadFile(filepath.Join(p.dir(), "volumes", "s", "key"))
	require.NoError(t, err)
	require.Equal(t, "late", string(content))

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, p.mount(ctx), context.Canceled)
}

func TestADeploymentThatCannotRunEndsAllOthers(t *testing.T) {
	cluster := testcluster.Get(t)
	client := kubernetes.NewForConfigOrDie(cluster.Config(t))
	create(t, client, "unknown")
	r, err := New(Options{
		Config: cluster.Config(t), Binaries: map[string]string{"example/program": os.Args[0]}, Dir: t.TempDir(),
		PodCIDR: netip.MustParsePrefix(cluster.Block + ".16.0/20"),
	})
	require.NoError(t, err)
	sound, unknown := deployment(), deployment()
	sound.Namespace, unknown.Namespace = "unknown", "unknown"
	unknown.Spec.Template.Spec.Containers[0].Image = "example/other:dev"
	require.ErrorContains(t, r.Run(t.Context(), []*appsv1.Deployment{sound, unknown}, nil), "no program is known for image example/other")
	pods, err := client.CoreV1().Pods("unknown").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Empty(t, pods.Items)
}

func create(t *testing.T, client kubernetes.Interface, namespace string) {
	t.Helper()
	ctx, meta := t.Context(), metav1.ObjectMeta{Name: "program", Namespace: namespace}
	_, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = client.CoreV1().ServiceAccounts(namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = client.CoreV1().Secrets(namespace).Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, StringData: map[string]string{"key": "one"}}, metav1.CreateOptions{})
	require.NoError(t, err)
}

func requireWhoami(t *testing.T, kubeconfig, user string) {
	t.Helper()
	info, err := os.Stat(kubeconfig)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	require.NoError(t, err)
	_, err = kubernetes.NewForConfigOrDie(config).CoreV1().Secrets("runner").List(t.Context(), metav1.ListOptions{})
	require.ErrorContains(t, err, `User "`+user+`" cannot list`)
}

// show tells what the programs said, and why the runner ended, when the test failed.
func show(t *testing.T, r *Runner, ended <-chan error) {
	if !t.Failed() {
		return
	}
	select {
	case err := <-ended:
		t.Log("the runner ended:", err)
	default:
	}
	for _, p := range r.Pods(nil) {
		log, err := os.ReadFile(p.LogFile)
		t.Logf("%+v: %s (%v)", p, log, err)
	}
}

func ready(p corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, 90*time.Second, 100*time.Millisecond, what)
}
