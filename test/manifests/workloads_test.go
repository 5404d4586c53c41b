package manifests

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func labelsOf(component string) map[string]string {
	return map[string]string{"app.kubernetes.io/name": namespace, "app.kubernetes.io/component": component}
}

func TestSelectorsFindTheirPods(t *testing.T) {
	objects := render(t, "base")
	for _, component := range components {
		t.Run(component, func(t *testing.T) {
			deployment := one[*appsv1.Deployment](t, objects, component)
			want := labelsOf(component)
			require.Subset(t, deployment.Spec.Template.Labels, want)
			require.Equal(t, want, deployment.Spec.Selector.MatchLabels)
			require.Equal(t, want, one[*corev1.Service](t, objects, component).Spec.Selector)
			require.Equal(t, want, one[*policyv1.PodDisruptionBudget](t, objects, component).Spec.Selector.MatchLabels)
			for _, spread := range deployment.Spec.Template.Spec.TopologySpreadConstraints {
				require.Equal(t, &metav1.LabelSelector{MatchLabels: want}, spread.LabelSelector)
			}
		})
	}
}

func TestServicesReachPorts(t *testing.T) {
	objects := render(t, "base")
	for _, component := range components {
		open := map[string]int32{}
		for _, port := range one[*appsv1.Deployment](t, objects, component).Spec.Template.Spec.Containers[0].Ports {
			open[port.Name] = port.ContainerPort
		}
		for _, port := range one[*corev1.Service](t, objects, component).Spec.Ports {
			require.Equal(t, intstr.String, port.TargetPort.Type)
			require.Contains(t, open, port.TargetPort.StrVal, "service %s", component)
		}
		require.EqualValues(t, 8080, open["admin"])
	}
	require.Equal(t, corev1.ClusterIPNone, one[*corev1.Service](t, objects, "sampler").Spec.ClusterIP)
	require.EqualValues(t, 8443, one[*corev1.Service](t, objects, "webhook").Spec.Ports[0].Port)
}

// Every port that a container lists is one that its arguments open, on the Pod's own address.
func TestArgumentsOpenThePorts(t *testing.T) {
	flags := map[string]string{"grpc": "--grpc-address", "https": "--https-address", "admin": "--admin-address"}
	for _, deployment := range all[*appsv1.Deployment](render(t, "base")) {
		container := deployment.Spec.Template.Spec.Containers[0]
		for _, port := range container.Ports {
			require.Contains(t, container.Args, fmt.Sprintf("%s=[$(POD_IP)]:%d", flags[port.Name], port.ContainerPort), deployment.Name)
		}
		require.Equal(t, len(container.Ports), strings.Count(strings.Join(container.Args, " "), "-address="), deployment.Name)
	}
}

func TestEnvironmentComesFromThePod(t *testing.T) {
	want := map[string]string{
		"POD_IP": "status.podIP", "POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace", "NODE_NAME": "spec.nodeName",
	}
	for _, deployment := range all[*appsv1.Deployment](render(t, "base")) {
		got := map[string]string{}
		for _, env := range deployment.Spec.Template.Spec.Containers[0].Env {
			got[env.Name] = env.ValueFrom.FieldRef.FieldPath
		}
		require.Equal(t, want, got, deployment.Name)
	}
}

func TestSecretsAreMountedWhereArgumentsLook(t *testing.T) {
	for _, overlay := range overlays {
		for _, component := range components {
			spec := one[*appsv1.Deployment](t, render(t, "overlays/"+overlay), component).Spec.Template.Spec
			if component != "sampler" && overlay != "cert-manager" {
				require.Empty(t, spec.Volumes)
				require.NotContains(t, strings.Join(spec.Containers[0].Args, " "), "tls")
				continue
			}
			require.Len(t, spec.Volumes, 1)
			require.Equal(t, component+"-tls", spec.Volumes[0].Secret.SecretName)
			require.Equal(t, []corev1.VolumeMount{{Name: spec.Volumes[0].Name, MountPath: "/etc/mds/tls", ReadOnly: true}}, spec.Containers[0].VolumeMounts)
			require.Contains(t, spec.Containers[0].Args, "--tls-cert-file=/etc/mds/tls/"+corev1.TLSCertKey)
			require.Contains(t, spec.Containers[0].Args, "--tls-key-file=/etc/mds/tls/"+corev1.TLSPrivateKeyKey)
			if component != "webhook" {
				require.Contains(t, spec.Containers[0].Args, "--tls-ca-file=/etc/mds/tls/ca.crt")
			}
		}
	}
}

func TestCertificatesAreMadeUnlessTheyAreFiles(t *testing.T) {
	for _, overlay := range overlays {
		var names []string
		for _, secret := range all[*corev1.Secret](render(t, "overlays/"+overlay)) {
			require.Empty(t, secret.Data, "content would be everybody's, and undo what was made")
			require.Empty(t, secret.StringData)
			names = append(names, secret.Name)
		}
		if overlay == "cert-manager" {
			require.Empty(t, names)
			continue
		}
		require.ElementsMatch(t, []string{"decider-authority", "decider-tls", "sampler-tls", "webhook-certificates"}, names)
	}
}

// The rules of the Pod security standard "restricted", which the namespace enforces, and somewhat more.
func TestPodsAreRestricted(t *testing.T) {
	objects := render(t, "base")
	require.Equal(t, "restricted", one[*corev1.Namespace](t, objects, namespace).Labels["pod-security.kubernetes.io/enforce"])
	for _, deployment := range all[*appsv1.Deployment](objects) {
		t.Run(deployment.Name, func(t *testing.T) {
			spec := deployment.Spec.Template.Spec
			require.False(t, spec.HostNetwork || spec.HostPID || spec.HostIPC)
			require.True(t, *spec.SecurityContext.RunAsNonRoot)
			require.NotZero(t, *spec.SecurityContext.RunAsUser)
			require.Equal(t, corev1.SeccompProfileTypeRuntimeDefault, spec.SecurityContext.SeccompProfile.Type)
			require.Empty(t, spec.InitContainers)
			for _, container := range spec.Containers {
				require.False(t, *container.SecurityContext.AllowPrivilegeEscalation)
				require.True(t, *container.SecurityContext.ReadOnlyRootFilesystem)
				require.Equal(t, []corev1.Capability{"ALL"}, container.SecurityContext.Capabilities.Drop)
				require.Empty(t, container.SecurityContext.Capabilities.Add)
				for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
					require.False(t, container.Resources.Requests.Name(name, "").IsZero())
					require.LessOrEqual(t, container.Resources.Requests.Name(name, "").Cmp(container.Resources.Limits[name]), 0)
				}
			}
		})
	}
}

func TestOnlySamplersAreWithoutToken(t *testing.T) {
	objects := render(t, "base")
	for _, component := range components {
		token := component != "sampler"
		spec := one[*appsv1.Deployment](t, objects, component).Spec.Template.Spec
		require.Equal(t, component, spec.ServiceAccountName)
		require.Equal(t, token, *spec.AutomountServiceAccountToken, component)
		require.Equal(t, token, *one[*corev1.ServiceAccount](t, objects, component).AutomountServiceAccountToken, component)
	}
}

// A process ends within ten seconds.
func TestPodsHaveTimeToEnd(t *testing.T) {
	for _, deployment := range all[*appsv1.Deployment](render(t, "base")) {
		spec := deployment.Spec.Template.Spec
		require.Nil(t, spec.Containers[0].Lifecycle, "programs end in order by themselves")
		require.Greater(t, *spec.TerminationGracePeriodSeconds, int64(10), deployment.Name)
		require.Zero(t, deployment.Spec.Strategy.RollingUpdate.MaxUnavailable.IntValue(), deployment.Name)
	}
}

func TestProbesAskTheAdminPort(t *testing.T) {
	for _, deployment := range all[*appsv1.Deployment](render(t, "base")) {
		container := deployment.Spec.Template.Spec.Containers[0]
		for path, probe := range map[string]*corev1.Probe{"/livez": container.LivenessProbe, "/readyz": container.ReadinessProbe} {
			require.Equal(t, &corev1.HTTPGetAction{Path: path, Port: intstr.FromString("admin")}, probe.HTTPGet, deployment.Name)
		}
		require.Equal(t, container.LivenessProbe.HTTPGet, container.StartupProbe.HTTPGet, deployment.Name)
	}
}

// A manifest that names a registry would break for everybody who has another one.
func TestImagesNameNoRegistry(t *testing.T) {
	for _, overlay := range overlays {
		for _, deployment := range all[*appsv1.Deployment](render(t, "overlays/"+overlay)) {
			require.Equal(t, namespace+"/"+deployment.Name+":dev", deployment.Spec.Template.Spec.Containers[0].Image)
		}
	}
}
