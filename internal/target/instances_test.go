package target

import (
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"gpustack.ai/model-deployment-scaler/internal/observe"
)

var (
	single = Deployment{Namespace: "ns", Name: "m1", UID: "u1", Roles: []Role{{Name: "server", Kind: observe.Server, Replicas: 2, Size: 1}}}
	group2 = Deployment{Namespace: "ns", Name: "m1", UID: "u1", Roles: []Role{{Name: "server", Kind: observe.Server, Replicas: 1, Size: 2}}}
)

// enginePod is a ready, scheduled Pod as the owner of a deployment renders it.
func enginePod(role string, ordinal, member int, edits ...func(*corev1.Pod)) *corev1.Pod {
	name := role + "-" + strconv.Itoa(ordinal) + "-" + strconv.Itoa(member)
	controller := true
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, UID: types.UID("uid-" + name),
			Labels: map[string]string{
				NameLabel: NameValue, InstanceLabel: "m1", ComponentLabel: role,
				OrdinalLabel: strconv.Itoa(ordinal), MemberLabel: strconv.Itoa(member),
			},
			Annotations: map[string]string{ScrapeAnnotation: "true", PortAnnotation: "8000", PathAnnotation: "/metrics", SchemeAnnotation: "http"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "worker.gpustack.ai/v1alpha1", Kind: Kind, Name: "m1", UID: "u1",
				Controller: &controller}},
		},
		Spec: corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "sidecar"}, {Name: EngineContainer}}},
		Status: corev1.PodStatus{
			PodIP:      "10.0.0.1",
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
			ContainerStatuses: []corev1.ContainerStatus{
				{Name: "sidecar", ContainerID: "cri://s", RestartCount: 9}, {Name: EngineContainer, ContainerID: "cri://e", RestartCount: 2}},
		},
	}
	for _, edit := range edits {
		edit(pod)
	}
	return pod
}

func label(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels[key] = value }
}

func unlabel(key string) func(*corev1.Pod) { return func(p *corev1.Pod) { delete(p.Labels, key) } }

func annotate(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations[key] = value }
}

func named(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Name, p.UID = name, types.UID("uid-"+name) }
}

func terminating(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }

func notReady(p *corev1.Pod) { p.Status.Conditions = nil }

func unscheduled(p *corev1.Pod) { p.Spec.NodeName = "" }

func ownedBy(uid, kind string, controller bool) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.OwnerReferences[0].UID, p.OwnerReferences[0].Kind = types.UID(uid), kind
		p.OwnerReferences[0].Controller = &controller
	}
}

func TestPodSelectorSelectsByDeployment(t *testing.T) {
	require.True(t, PodSelector("m1").Matches(labels.Set(enginePod("server", 0, 0).Labels)))
	require.False(t, PodSelector("m2").Matches(labels.Set(enginePod("server", 0, 0).Labels)))
}

func TestInstancesLeavesOutPodsThatAreNotTheDeploymentsOwn(t *testing.T) {
	for name, edit := range map[string]func(*corev1.Pod){
		"controlled by an earlier deployment of the same name": ownedBy("u0", Kind, true),
		"owned but not controlled":                             ownedBy("u1", Kind, false),
		"controlled by a ReplicaSet with that UID":             ownedBy("u1", "ReplicaSet", true),
		"without an owner":                                     func(p *corev1.Pod) { p.OwnerReferences = nil },
		"in another namespace":                                 func(p *corev1.Pod) { p.Namespace = "other" },
		"a router":                                             label(RouterLabel, "llm-d-router"),
		"of a role that the deployment does not have":          label(ComponentLabel, "decode"),
		"without a role":                                       unlabel(ComponentLabel),
		"without an ordinal":                                   unlabel(OrdinalLabel),
		"with an ordinal that is a word":                       label(OrdinalLabel, "first"),
		"with a negative ordinal":                              label(OrdinalLabel, "-1"),
		"with a signed ordinal":                                label(OrdinalLabel, "+1"),
		"with a leading zero":                                  label(OrdinalLabel, "01"),
		"with an ordinal that overflows":                       label(OrdinalLabel, "4294967296"),
		"with an empty ordinal":                                label(OrdinalLabel, ""),
	} {
		t.Run(name, func(t *testing.T) {
			require.Empty(t, Instances(single, []*corev1.Pod{enginePod("server", 0, 0, edit)}, nil, false))
		})
	}
}

func TestAnInstanceIsReadyWhenAllItsMembersAre(t *testing.T) {
	for name, test := range map[string]struct {
		deployment Deployment
		pods       []*corev1.Pod
		ready      bool
	}{
		"one Pod of one":                                    {single, []*corev1.Pod{enginePod("server", 0, 0)}, true},
		"one Pod of one without a member label":             {single, []*corev1.Pod{enginePod("server", 0, 0, unlabel(MemberLabel))}, true},
		"one Pod of one that is not ready":                  {single, []*corev1.Pod{enginePod("server", 0, 0, notReady)}, false},
		"one Pod of one that terminates":                    {single, []*corev1.Pod{enginePod("server", 0, 0, terminating)}, false},
		"a terminating Pod beside its ready successor":      {single, []*corev1.Pod{enginePod("server", 0, 0, terminating), enginePod("server", 0, 0, named("next"))}, true},
		"two live Pods for one place":                       {single, []*corev1.Pod{enginePod("server", 0, 0), enginePod("server", 0, 0, named("twin"))}, false},
		"a member index that cannot be read":                {single, []*corev1.Pod{enginePod("server", 0, 0, label(MemberLabel, "x"))}, false},
		"a member index that the role does not declare":     {single, []*corev1.Pod{enginePod("server", 0, 0), enginePod("server", 0, 1)}, false},
		"both members of two":                               {group2, []*corev1.Pod{enginePod("server", 0, 1), enginePod("server", 0, 0)}, true},
		"the leader of two alone":                           {group2, []*corev1.Pod{enginePod("server", 0, 0)}, false},
		"two members, the second not ready":                 {group2, []*corev1.Pod{enginePod("server", 0, 0), enginePod("server", 0, 1, notReady)}, false},
		"two members, the second terminating":               {group2, []*corev1.Pod{enginePod("server", 0, 0), enginePod("server", 0, 1, terminating)}, false},
		"two members without labels, so both read as first": {group2, []*corev1.Pod{enginePod("server", 0, 0, unlabel(MemberLabel)), enginePod("server", 0, 1, unlabel(MemberLabel))}, false},
	} {
		t.Run(name, func(t *testing.T) {
			instances := Instances(test.deployment, test.pods, nil, false)
			require.Len(t, instances, 1)
			require.Equal(t, test.ready, instances[0].Ready)
			require.Equal(t, test.ready, len(instances[0].Endpoints) == 1)
		})
	}
}

func TestAnAbsurdSizeCostsNoTime(t *testing.T) {
	d := group2
	d.Roles = []Role{{Name: "server", Size: math.MaxInt32}}
	began := time.Now()
	require.False(t, Instances(d, []*corev1.Pod{enginePod("server", 0, 0)}, nil, false)[0].Ready)
	require.Less(t, time.Since(began), 5*time.Second)
}

func TestInstancesComeByRoleAndOrdinal(t *testing.T) {
	d := single
	d.Roles = []Role{{Name: "prefill", Size: 1}, {Name: "decode", Size: 1}}
	instances := Instances(d, []*corev1.Pod{
		enginePod("decode", 0, 0), enginePod("prefill", 10, 0), enginePod("prefill", 2, 0, notReady), enginePod("decode", 1, 0),
	}, nil, false)
	var order []string
	for _, i := range instances {
		order = append(order, i.Role+strconv.Itoa(i.Ordinal))
	}
	require.Equal(t, []string{"prefill2", "prefill10", "decode0", "decode1"}, order)
	require.Equal(t, 1, Ready(instances, "prefill"))
	require.Equal(t, 2, Ready(instances, "decode"))
	require.Len(t, Endpoints(instances, "decode"), 2)
}

func TestAReadyInstanceIsSampledWhereItsAnnotationsSay(t *testing.T) {
	pod := observe.Pod{Name: "server-0-0", UID: "uid-server-0-0", Incarnation: "cri://e#2", Address: "10.0.0.1", Port: 8000,
		Scheme: "http", Path: "/metrics", Node: "n1"}
	with := func(edit func(*observe.Pod)) []observe.Pod {
		p := pod
		edit(&p)
		return []observe.Pod{p}
	}
	for name, test := range map[string]struct {
		edit func(*corev1.Pod)
		want []observe.Pod
	}{
		"as rendered": {func(*corev1.Pod) {}, []observe.Pod{pod}},
		"without path and scheme": {func(p *corev1.Pod) {
			delete(p.Annotations, PathAnnotation)
			delete(p.Annotations, SchemeAnnotation)
		}, []observe.Pod{pod}},
		"over https on another path": {func(p *corev1.Pod) {
			p.Annotations[SchemeAnnotation], p.Annotations[PathAnnotation] = "https", "/m"
		}, with(func(p *observe.Pod) { p.Scheme, p.Path = "https", "/m" })},
		"on IPv6": {func(p *corev1.Pod) { p.Status.PodIP = "fd00::1" }, with(func(p *observe.Pod) { p.Address = "fd00::1" })},
		"without a container named main": {func(p *corev1.Pod) {
			p.Spec.Containers = []corev1.Container{{Name: "sidecar"}, {Name: "other"}}
		}, with(func(p *observe.Pod) { p.Incarnation = "cri://s#9" })},
		"before any container status": {func(p *corev1.Pod) { p.Status.ContainerStatuses = nil },
			with(func(p *observe.Pod) { p.Incarnation = "" })},
		"scrape off":                       {annotate(ScrapeAnnotation, "false"), nil},
		"no annotations at all":            {func(p *corev1.Pod) { p.Annotations = nil }, nil},
		"no port":                          {annotate(PortAnnotation, ""), nil},
		"port zero":                        {annotate(PortAnnotation, "0"), nil},
		"a port over 65535":                {annotate(PortAnnotation, "65536"), nil},
		"a port by name":                   {annotate(PortAnnotation, "http"), nil},
		"a scheme that is not HTTP":        {annotate(SchemeAnnotation, "file"), nil},
		"a path that is another host":      {annotate(PathAnnotation, "@elsewhere/metrics"), nil},
		"no address yet":                   {func(p *corev1.Pod) { p.Status.PodIP = "" }, nil},
		"an address that is a host's name": {func(p *corev1.Pod) { p.Status.PodIP = "example.com" }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			instances := Instances(single, []*corev1.Pod{enginePod("server", 0, 0, test.edit)}, nil, false)
			require.Len(t, instances, 1)
			require.True(t, instances[0].Ready, "an instance without an endpoint is ready all the same")
			require.Equal(t, test.want, instances[0].Endpoints)
		})
	}
}

func TestMembersMarkedEligibleAreSampledBesideTheLeader(t *testing.T) {
	pods := []*corev1.Pod{enginePod("server", 3, 1, label(EndpointEligibleLabel, "true")), enginePod("server", 3, 0)}
	endpoints := Endpoints(Instances(group2, pods, nil, false), "server")
	require.Len(t, endpoints, 2)
	require.Equal(t, []string{"server-3-0", "server-3-1"}, []string{endpoints[0].Name, endpoints[1].Name})
	require.Equal(t, 3, endpoints[1].Ordinal)

	pods[0].Labels[EndpointEligibleLabel] = "false"
	require.Len(t, Endpoints(Instances(group2, pods, nil, false), "server"), 1)
}

func TestRolesWithoutManagedSignalsAreNotSampled(t *testing.T) {
	for name, role := range map[string]Role{
		"a custom command": {Name: "server", Size: 1, Unmanaged: true},
		"an elastic width": {Name: "server", Size: 1, ElasticEP: true},
	} {
		t.Run(name, func(t *testing.T) {
			d := single
			d.Roles = []Role{role}
			instances := Instances(d, []*corev1.Pod{enginePod("server", 0, 0)}, nil, false)
			require.True(t, instances[0].Ready)
			require.Empty(t, instances[0].Endpoints)
		})
	}
}

func TestAdmission(t *testing.T) {
	queued := label(QueueLabel, "q")
	workload := func(name string, admitted bool, pods ...string) Workload {
		return Workload{Namespace: "ns", Name: name, UID: "w-" + name, PodUIDs: pods, Admitted: admitted}
	}
	one, two := "uid-server-0-0", "uid-server-0-1"
	for name, test := range map[string]struct {
		deployment Deployment
		pods       []*corev1.Pod
		workloads  []Workload
		unserved   bool
		want       Admission
	}{
		"queued without a Workload yet":            {deployment: single, pods: []*corev1.Pod{enginePod("server", 0, 0, queued)}, want: AdmissionPending},
		"queued with an admitted Workload":         {deployment: single, pods: []*corev1.Pod{enginePod("server", 0, 0, queued, unscheduled)}, workloads: []Workload{workload("a", true, one)}, want: AdmissionGranted},
		"queued with a waiting Workload":           {deployment: single, pods: []*corev1.Pod{enginePod("server", 0, 0, queued)}, workloads: []Workload{workload("a", false, one)}, want: AdmissionPending},
		"queued with somebody else's Workload":     {deployment: single, pods: []*corev1.Pod{enginePod("server", 0, 0, queued)}, workloads: []Workload{workload("a", true, "uid-x")}, want: AdmissionPending},
		"queued with two Workloads, the first out": {deployment: single, pods: []*corev1.Pod{enginePod("server", 0, 0, queued)}, workloads: []Workload{workload("b", true, one), workload("a", false, one)}, want: AdmissionPending},
		"queued, no Workload API, scheduled":       {deployment: single, pods: []*corev1.Pod{enginePod("server", 0, 0, queued)}, unserved: true, want: AdmissionGranted},
		"no queue, scheduled":                      {deployment: single, pods: []*corev1.Pod{enginePod("server", 0, 0)}, want: AdmissionGranted},
		"no queue, not scheduled":                  {deployment: single, pods: []*corev1.Pod{enginePod("server", 0, 0, unscheduled)}, want: AdmissionPending},
		"the Workload of the Pod that goes is not its successor's": {deployment: single,
			pods:      []*corev1.Pod{enginePod("server", 0, 0, queued, terminating), enginePod("server", 0, 0, queued, named("next"))},
			workloads: []Workload{workload("a", true, one)}, want: AdmissionPending},
		"a group with all its Pods in one Workload":  {deployment: group2, pods: []*corev1.Pod{enginePod("server", 0, 0, queued), enginePod("server", 0, 1, queued)}, workloads: []Workload{workload("a", true, one, two)}, want: AdmissionGranted},
		"a group with a Pod outside of the Workload": {deployment: group2, pods: []*corev1.Pod{enginePod("server", 0, 0, queued), enginePod("server", 0, 1, queued)}, workloads: []Workload{workload("a", true, one)}, want: AdmissionPending},
		"a group that is not whole yet":              {deployment: group2, pods: []*corev1.Pod{enginePod("server", 0, 0, queued)}, workloads: []Workload{workload("a", true, one)}, want: AdmissionPending},
	} {
		t.Run(name, func(t *testing.T) {
			instances := Instances(test.deployment, test.pods, test.workloads, !test.unserved)
			require.Len(t, instances, 1)
			require.Equal(t, test.want, instances[0].Admission)
		})
	}
}

func TestARetirementKeepsItsOrdinalListedUntilItsWorkloadIsGone(t *testing.T) {
	d := single
	d.Retirement = &Retirement{Role: "server", Ordinal: 2, State: RetirementSettling, WorkloadUID: "w1"}
	require.Equal(t, []Instance{{Role: "server", Ordinal: 2, Admission: AdmissionPending}},
		Instances(d, nil, []Workload{{Name: "w", UID: "w1"}}, true))
	require.Empty(t, Instances(d, nil, nil, true))
	require.Len(t, Instances(d, []*corev1.Pod{enginePod("server", 2, 0, terminating)}, []Workload{{Name: "w", UID: "w1"}}, true), 1,
		"once, not twice, while its Pod is still there")

	d.Retirement.WorkloadUID = ""
	require.Empty(t, Instances(d, nil, []Workload{{Name: "w"}}, true))
}

func TestAWorkloadOutlivesItsPodsAndItsRetirement(t *testing.T) {
	left := func(role, pod string) Workload {
		return Workload{Namespace: "ns", Name: "w", UID: "w1", PodUIDs: []string{"gone"}, Role: role, PodName: pod, Admitted: true}
	}
	listed := func(ordinal int) []Instance {
		return []Instance{{Role: "server", Ordinal: ordinal, Admission: AdmissionPending}}
	}
	for name, test := range map[string]struct {
		deployment Deployment
		workload   Workload
		want       []Instance
	}{
		"of one Pod: the lowest removed ordinal stands for it": {single, left("server", "m1-server-x7k2p"), listed(2)},
		"of several Pods: their names tell the ordinal":        {group2, left("server", "m1-server-r5-m1"), listed(5)},
		"of several Pods, with a name that tells none":         {group2, left("server", "m1-server-rx-m1"), listed(1)},
		"of another deployment":                                {single, left("server", "m2-server-x7k2p"), nil},
		"of a deployment whose name goes on":                   {single, left("server", "m1-more-server-x7k2p"), nil},
		"of a role that is none of the deployment's":           {single, left("decode", "m1-decode-x7k2p"), nil},
		"of a role whose name begins like this one":            {single, left("server-b", "m1-server-b-x7k2p"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			require.ElementsMatch(t, test.want, Instances(test.deployment, nil, []Workload{test.workload}, true))
		})
	}
	elsewhere := left("server", "m1-server-x7k2p")
	elsewhere.Namespace = "other"
	require.Empty(t, Instances(single, nil, []Workload{elsewhere}, true))

	one := enginePod("server", 0, 0)
	taken := left("server", "m1-server-x7k2p")
	taken.PodUIDs = []string{"gone", string(one.UID)}
	require.Len(t, Instances(single, []*corev1.Pod{one}, []Workload{taken}, true), 1, "one of its Pods is still there")
}
