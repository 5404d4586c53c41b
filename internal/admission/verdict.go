package admission

import (
	"fmt"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/fence"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

// Outcomes of a request, as metrics count them; beside them, the reasons of package fence.
const (
	outcomeAllowed     = "Allowed"
	outcomeInvalid     = "Invalid"
	outcomeUnavailable = "Unavailable"
	outcomeBadRequest  = "BadRequest"
	outcomePanic       = "Panic"
)

// verdict is an answer and the name it is counted under.
type verdict struct {
	outcome  string
	response admissionv1.AdmissionResponse
}

func allowed(warnings ...string) verdict {
	return verdict{outcomeAllowed, admissionv1.AdmissionResponse{Allowed: true, Warnings: warnings}}
}

// refused carries a Status that the API server hands to the client.
func refused(outcome string, status metav1.Status) verdict {
	status.Status = metav1.StatusFailure
	return verdict{outcome, admissionv1.AdmissionResponse{Result: &status}}
}

// fenced turns a refusal of the fence into a Status whose cause names the rule.
func fenced(r *fence.Refusal, name string) verdict {
	reason := metav1.StatusReasonForbidden
	if r.Code == http.StatusServiceUnavailable {
		reason = metav1.StatusReasonServiceUnavailable
	}
	return refused(string(r.Reason), metav1.Status{
		Message: r.Message, Reason: reason, Code: r.Code,
		Details: &metav1.StatusDetails{
			Group: target.GroupName, Kind: target.Kind, Name: name,
			Causes: []metav1.StatusCause{{Type: metav1.CauseType(r.Reason), Message: r.Message}},
		},
	})
}

// invalid names every broken field of a scaler at once.
func invalid(name string, errs field.ErrorList, warnings []string) verdict {
	kind := schema.GroupKind{Group: workerv1.GroupName, Kind: workerv1.Kind}
	v := refused(outcomeInvalid, apierrors.NewInvalid(kind, name, errs).ErrStatus)
	v.response.Warnings = warnings
	return v
}

// unavailable: a live read failed, and what cannot be looked up is not allowed.
func unavailable(err error) verdict {
	return refused(outcomeUnavailable, metav1.Status{
		Message: fmt.Sprintf("the write cannot be judged now, try again: %v", err),
		Reason:  metav1.StatusReasonServiceUnavailable, Code: http.StatusServiceUnavailable,
	})
}

// badRequest: the request is not one that this webhook is registered for, or its objects cannot be read.
func badRequest(format string, args ...any) verdict {
	return refused(outcomeBadRequest, metav1.Status{
		Message: fmt.Sprintf(format, args...), Reason: metav1.StatusReasonBadRequest, Code: http.StatusBadRequest,
	})
}
