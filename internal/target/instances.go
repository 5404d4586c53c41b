package target

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gpustack.ai/model-deployment-scaler/internal/observe"
)

// Instances groups the Pods of d into serving instances, in the order of the roles and then by ordinal (D1). An instance
// is listed when it has a Pod, terminating or not, or a Workload whose Pods are gone: an ordinal that is not listed has nothing
// left, or nothing yet (D32).
//
// Only Pods controlled by the UID of d count (D61), in a role of d, with a readable ordinal. workloadsServed says whether
// the cluster has the Workload API at all.
func Instances(d Deployment, pods []*corev1.Pod, workloads []Workload, workloadsServed bool) []Instance {
	groups := group(d, pods)
	queue := newQueue(workloads, workloadsServed)
	instances := make([]Instance, 0, len(groups))
	for key, members := range groups {
		role, _ := d.Role(key.role)
		instances = append(instances, newInstance(role, key.ordinal, members, queue))
	}
	for key := range leftovers(d, pods, workloads) {
		if groups[key] == nil {
			instances = append(instances, Instance{Role: key.role, Ordinal: key.ordinal, Admission: AdmissionPending})
		}
	}
	place := make(map[string]int, len(d.Roles))
	for i, r := range d.Roles {
		place[r.Name] = i
	}
	slices.SortFunc(instances, func(a, b Instance) int {
		return cmp.Or(cmp.Compare(place[a.Role], place[b.Role]), cmp.Compare(a.Ordinal, b.Ordinal))
	})
	return instances
}

// slot is the place of one instance.
type slot struct {
	role    string
	ordinal int
}

// group collects the Pods of each slot.
func group(d Deployment, pods []*corev1.Pod) map[slot][]*corev1.Pod {
	groups := make(map[slot][]*corev1.Pod)
	for _, pod := range pods {
		ordinal, readable := decimal(pod.Labels[OrdinalLabel])
		role, known := d.Role(pod.Labels[ComponentLabel])
		if readable && known && belongs(pod, d) {
			key := slot{role.Name, ordinal}
			groups[key] = append(groups[key], pod)
		}
	}
	return groups
}

// belongs says whether the Pod is an engine Pod of this very deployment, not of a namesake or a router.
func belongs(pod *corev1.Pod, d Deployment) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	return owner != nil && owner.Kind == Kind && string(owner.UID) == d.UID && d.UID != "" &&
		pod.Namespace == d.Namespace && pod.Labels[RouterLabel] == ""
}

// leftovers are the places of Workloads whose Pods are gone. A retirement names its own; of others the names of the Pods that
// were say whose they are. Where those do not tell the ordinal, the lowest removed one stands for it: better wait for the
// Workload of a Pod that somebody deleted than hand out capacity that is still taken.
func leftovers(d Deployment, pods []*corev1.Pod, workloads []Workload) map[slot]bool {
	there := make(map[string]bool, len(pods))
	for _, pod := range pods {
		there[string(pod.UID)] = true
	}
	found := map[slot]bool{}
	for _, w := range workloads {
		if r := d.Retirement; r != nil && r.WorkloadUID != "" && r.WorkloadUID == w.UID {
			found[slot{r.Role, r.Ordinal}] = true
			continue
		}
		if slices.ContainsFunc(w.PodUIDs, func(uid string) bool { return there[uid] }) {
			continue
		}
		for _, role := range d.Roles {
			if w.of(d, role) {
				ordinal, known := w.ordinal(d, role)
				if !known {
					ordinal = int(role.Replicas)
				}
				found[slot{role.Name, ordinal}] = true
			}
		}
	}
	return found
}

func newInstance(role Role, ordinal int, pods []*corev1.Pod, q queue) Instance {
	members, whole := liveMembers(role, pods)
	instance := Instance{Role: role.Name, Ordinal: ordinal, Ready: whole, Admission: q.admission(members, whole)}
	for _, member := range members {
		instance.Ready = instance.Ready && holds(member, corev1.PodReady)
	}
	if instance.Ready && !role.Unmanaged && !role.ElasticEP {
		instance.Endpoints = endpoints(ordinal, members)
	}
	return instance
}

// liveMembers are the Pods that are not on their way out, by member index; whole says that there is exactly one for every
// index that the role declares. An index that cannot be read, or two Pods with one index, make an instance not whole: nobody
// could say which of them is the leader.
func liveMembers(role Role, pods []*corev1.Pod) (members []*corev1.Pod, whole bool) {
	byIndex := make(map[int]*corev1.Pod, len(pods))
	whole = true
	for _, pod := range pods {
		if pod.DeletionTimestamp != nil {
			continue
		}
		index, readable := memberIndex(pod)
		if !readable || index >= int(role.Size) || byIndex[index] != nil {
			whole = false
			continue
		}
		byIndex[index] = pod
	}
	for _, index := range slices.Sorted(maps.Keys(byIndex)) {
		members = append(members, byIndex[index])
	}
	return members, whole && len(members) == int(role.Size) && role.Size > 0
}

// memberIndex of a Pod; an absent label reads as 0.
func memberIndex(pod *corev1.Pod) (int, bool) {
	label, labelled := pod.Labels[MemberLabel]
	if !labelled {
		return 0, true
	}
	return decimal(label)
}

// decimal reads a number as the owner writes it: digits alone, no sign, no leading zero.
func decimal(s string) (int, bool) {
	n, err := strconv.ParseUint(s, 10, 31)
	return int(n), err == nil && strconv.FormatUint(n, 10) == s
}

func holds(pod *corev1.Pod, condition corev1.PodConditionType) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == condition && c.Status == corev1.ConditionTrue
	})
}

// Ready counts the ready instances of a role: the capacity that plans are made with (D1).
func Ready(instances []Instance, role string) int {
	n := 0
	for _, i := range instances {
		if i.Role == role && i.Ready {
			n++
		}
	}
	return n
}

// Endpoints lists the Pods that answer for the ready instances of a role, by ordinal (D1, D2).
func Endpoints(instances []Instance, role string) []observe.Pod {
	var pods []observe.Pod
	for _, i := range instances {
		if i.Role == role {
			pods = append(pods, i.Endpoints...)
		}
	}
	return pods
}
