package cluster

import (
	"encoding/json"
	"strconv"
	"strings"
)

// layout is all that the components' command lines are made of.
type layout struct {
	Block
	pki
	etcdDir            string
	controllerManagers string // kubeconfig of kube-controller-manager
	verbosity          int
	throwAway          bool // the data is not worth an fsync
}

// Sizes for a control plane with hundreds of objects and one client, where
// etcd's defaults are for thousands.
const (
	etcdQuotaBytes      = 1 << 30
	etcdSnapshotCount   = 1000
	etcdCatchUpEntries  = 500
	watchDrainSeconds   = 1
	controllerQPS       = 200
	controllerBurst     = 400
	serviceAccountsFrom = "https://kubernetes.default.svc.cluster.local"
)

// controllers are those whose work is visible without nodes. Endpoint slices
// refuse loopback addresses, and the Pod collector would delete Pods whose
// node nobody plays.
var controllers = []string{
	"namespace-controller",
	"garbage-collector-controller",
	"serviceaccount-controller",
	"serviceaccount-token-controller",
	"root-ca-certificate-publisher-controller",
	"clusterrole-aggregation-controller",
	"validatingadmissionpolicy-status-controller",
}

// etcdConfig is etcd's configuration file; JSON is YAML.
func (l layout) etcdConfig() ([]byte, error) {
	client, peer := l.url(etcdClientPort), l.url(etcdPeerPort)
	security := map[string]any{
		"cert-file":        l.cert(etcdName),
		"key-file":         l.key(etcdName),
		"client-cert-auth": true,
		"trusted-ca-file":  l.cert(authorityName),
	}
	return json.MarshalIndent(map[string]any{
		"name":                        "devcluster",
		"data-dir":                    l.etcdDir,
		"listen-client-urls":          client,
		"advertise-client-urls":       client,
		"listen-peer-urls":            peer,
		"initial-advertise-peer-urls": peer,
		"initial-cluster":             "devcluster=" + peer,
		"client-transport-security":   security,
		"peer-transport-security":     security,
		"quota-backend-bytes":         etcdQuotaBytes,
		"snapshot-count":              etcdSnapshotCount,
		"snapshot-catchup-entries":    etcdCatchUpEntries,
		"unsafe-no-fsync":             l.throwAway,
		"logger":                      "zap",
		"log-level":                   "warn",
		"log-outputs":                 []string{"stderr"},
	}, "", "  ")
}

// apiServerArguments are kube-apiserver's flags. No endpoint reconciler: it
// refuses loopback addresses.
func (l layout) apiServerArguments() []string {
	return []string{
		"--bind-address=" + l.Address(),
		"--advertise-address=" + l.Address(),
		"--secure-port=" + strconv.Itoa(apiServerPort),
		"--service-cluster-ip-range=" + l.ServiceCIDR(),
		"--endpoint-reconciler-type=none",
		"--etcd-servers=" + l.url(etcdClientPort),
		"--etcd-cafile=" + l.cert(authorityName),
		"--etcd-certfile=" + l.cert(etcdClientName),
		"--etcd-keyfile=" + l.key(etcdClientName),
		"--tls-cert-file=" + l.cert(apiServerName),
		"--tls-private-key-file=" + l.key(apiServerName),
		"--client-ca-file=" + l.cert(authorityName),
		"--anonymous-auth=false",
		"--authorization-mode=RBAC",
		"--service-account-issuer=" + serviceAccountsFrom,
		"--service-account-key-file=" + l.key(serviceAccountName),
		"--service-account-signing-key-file=" + l.key(serviceAccountName),
		"--allow-privileged=true",
		"--profiling=false",
		"--shutdown-watch-termination-grace-period=" + strconv.Itoa(watchDrainSeconds) + "s",
		"--v=" + strconv.Itoa(l.verbosity),
	}
}

// controllerManagerArguments are kube-controller-manager's flags. Each
// controller works under its own service account, as in a real cluster.
func (l layout) controllerManagerArguments() []string {
	return []string{
		"--kubeconfig=" + l.controllerManagers,
		"--authentication-kubeconfig=" + l.controllerManagers,
		"--authorization-kubeconfig=" + l.controllerManagers,
		"--bind-address=" + l.Address(),
		"--secure-port=" + strconv.Itoa(controllerManagerPort),
		"--tls-cert-file=" + l.cert(controllerManagerName),
		"--tls-private-key-file=" + l.key(controllerManagerName),
		"--client-ca-file=" + l.cert(authorityName),
		"--root-ca-file=" + l.cert(authorityName),
		"--service-account-private-key-file=" + l.key(serviceAccountName),
		"--use-service-account-credentials=true",
		"--controllers=" + strings.Join(controllers, ","),
		"--leader-elect=false",
		"--kube-api-qps=" + strconv.Itoa(controllerQPS),
		"--kube-api-burst=" + strconv.Itoa(controllerBurst),
		"--profiling=false",
		"--v=" + strconv.Itoa(l.verbosity),
	}
}
