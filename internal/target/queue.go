package target

import corev1 "k8s.io/api/core/v1"

// queue answers who has been admitted.
type queue struct {
	served bool
	byPod  map[string]Workload // by UID of an owning Pod
}

func newQueue(workloads []Workload, served bool) queue {
	q := queue{served: served, byPod: make(map[string]Workload)}
	for _, w := range workloads {
		for _, pod := range w.PodUIDs {
			// Of several Workloads of one Pod the first by name counts, as the deployment's owner reads them.
			if first, taken := q.byPod[pod]; !taken || w.Name < first.Name {
				q.byPod[pod] = w
			}
		}
	}
	return q
}

// admission of an instance, from its live members. An instance that is not whole is pending: its Workload is composed when
// all its Pods exist.
func (q queue) admission(members []*corev1.Pod, whole bool) Admission {
	if !whole {
		return AdmissionPending
	}
	for _, pod := range members {
		if !q.admitted(pod) {
			return AdmissionPending
		}
	}
	return AdmissionGranted
}

// admitted: the Pod's Workload is, where a queue gates the Pod; otherwise it is scheduled (D29, D60).
func (q queue) admitted(pod *corev1.Pod) bool {
	if q.served && pod.Labels[QueueLabel] != "" {
		return q.byPod[string(pod.UID)].Admitted
	}
	return pod.Spec.NodeName != "" || holds(pod, corev1.PodScheduled)
}
