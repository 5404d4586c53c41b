package admission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"runtime/debug"
	"time"

	"go.uber.org/zap"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// maxBody is what the API server can send: two objects of etcd's limit of 1.5 MiB.
	maxBody = 3 << 20
	// maxTime is under the timeoutSeconds of the shipped configurations (5), so that the client gets a reason and not a timeout.
	maxTime = 4 * time.Second
)

// endpoint speaks AdmissionReview v1 over HTTP for one judge. Requests that are not reviews get an HTTP error, which the API
// server treats as a failed call: refused, under failurePolicy Fail.
type endpoint struct {
	path    string
	judge   judge
	log     *zap.Logger
	metrics *metrics
}

func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	started := time.Now()
	request, err := readReview(w, r)
	if err != nil {
		e.metrics.observe(e.path, "", outcomeBadRequest, time.Since(started))
		http.Error(w, err.Error(), err.code)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), deadline(r))
	defer cancel()
	v := e.judgeSafely(ctx, request)
	v.response.UID = request.UID
	e.report(request, v)
	e.metrics.observe(e.path, request.Operation, v.outcome, time.Since(started))
	writeReview(w, v.response)
}

// judgeSafely makes a refusal of a panic: a defect here must not let a write through, nor stop the others.
func (e *endpoint) judgeSafely(ctx context.Context, r *admissionv1.AdmissionRequest) (v verdict) {
	defer func() {
		if cause := recover(); cause != nil {
			e.log.Error("judging a write panicked; it was refused", zap.Any("cause", cause),
				zap.String("resource", r.Resource.Resource), zap.String("namespace", r.Namespace), zap.String("name", r.Name),
				zap.ByteString("stack", debug.Stack()))
			v = refused(outcomePanic, metav1.Status{
				Message: "the webhook failed while judging this write, which is a defect: it is refused to be safe, and the log of the webhook tells the cause",
				Reason:  metav1.StatusReasonInternalError, Code: http.StatusInternalServerError,
			})
		}
	}()
	return e.judge(ctx, r)
}

func (e *endpoint) report(r *admissionv1.AdmissionRequest, v verdict) {
	if v.response.Allowed {
		return
	}
	e.log.Info("refused a write", zap.String("outcome", v.outcome), zap.String("user", r.UserInfo.Username),
		zap.String("operation", string(r.Operation)), zap.String("resource", r.Resource.Resource),
		zap.String("subresource", r.SubResource), zap.String("namespace", r.Namespace), zap.String("name", r.Name),
		zap.Bool("dryRun", r.DryRun != nil && *r.DryRun))
}

// deadline is four fifths of the time that the API server says it waits, and never over maxTime.
func deadline(r *http.Request) time.Duration {
	waits, err := time.ParseDuration(r.URL.Query().Get("timeout"))
	if err != nil || waits <= 0 {
		return maxTime
	}
	return min(waits*4/5, maxTime)
}

// httpError is an answer to what is not a review.
type httpError struct {
	code    int
	message string
}

func (e *httpError) Error() string { return e.message }

func readReview(w http.ResponseWriter, r *http.Request) (*admissionv1.AdmissionRequest, *httpError) {
	if r.Method != http.MethodPost {
		return nil, &httpError{http.StatusMethodNotAllowed, "only POST is served here"}
	}
	mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || mediaType != "application/json" {
		return nil, &httpError{http.StatusUnsupportedMediaType, "the content type must be application/json"}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if errors.As(err, new(*http.MaxBytesError)) {
		return nil, &httpError{http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is over %d bytes", maxBody)}
	}
	if err != nil {
		return nil, &httpError{http.StatusBadRequest, "the body could not be read"}
	}
	return decodeReview(body)
}

func decodeReview(body []byte) (*admissionv1.AdmissionRequest, *httpError) {
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(body, &review); err != nil {
		return nil, &httpError{http.StatusBadRequest, "the body is not an AdmissionReview"}
	}
	if review.GroupVersionKind() != admissionv1.SchemeGroupVersion.WithKind("AdmissionReview") {
		return nil, &httpError{http.StatusBadRequest, "the body is not an AdmissionReview of admission.k8s.io/v1"}
	}
	if review.Request == nil || review.Request.UID == "" {
		return nil, &httpError{http.StatusBadRequest, "the AdmissionReview has no request with a UID"}
	}
	return review.Request, nil
}

func writeReview(w http.ResponseWriter, response admissionv1.AdmissionResponse) {
	review := admissionv1.AdmissionReview{Response: &response}
	review.SetGroupVersionKind(admissionv1.SchemeGroupVersion.WithKind("AdmissionReview"))
	body, err := json.Marshal(review)
	if err != nil { // plain strings, numbers and bytes always marshal
		http.Error(w, "the answer could not be written", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body) // a client that is gone has its refusal
}
