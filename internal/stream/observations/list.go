package observations

import (
	"context"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	observationv1 "gpustack.ai/model-deployment-scaler/api/proto/modelscaler/observation/v1"
	"gpustack.ai/model-deployment-scaler/internal/stream"
)

// maxPage leaves room for what is in an answer beside its observations.
const maxPage = stream.MaxMessage - 64<<10

// List answers with one page: ObservationService.List.
func (s *Server) List(ctx context.Context, r *observationv1.ObservationServiceListRequest) (*observationv1.ObservationServiceListResponse, error) {
	if err := s.authorise(ctx, r.GetSelector().GetNamespace()); err != nil {
		return nil, err
	}
	v := s.leading()
	if v == nil {
		return s.relayList(ctx, r)
	}
	after, err := parsePageToken(r.GetPageToken())
	if err != nil {
		return nil, err
	}
	answer := page(sorted(v.list(selectorOf(r.GetSelector()))), after, int(r.GetPageSize()), time.Now())
	answer.Leader = s.options.Identity
	return answer, nil
}

// page is what comes after a key, as much as was asked for and fits.
func page(entries []*entry, after key, size int, now time.Time) *observationv1.ObservationServiceListResponse {
	answer, bytes := &observationv1.ObservationServiceListResponse{}, 0
	for _, e := range entries {
		if e.compare(after) <= 0 {
			continue
		}
		o := e.encode(now)
		bytes += proto.Size(o) + 8 // tag and length
		full := size > 0 && len(answer.Observations) >= size || bytes > maxPage
		if full && len(answer.Observations) > 0 {
			last := answer.Observations[len(answer.Observations)-1]
			answer.NextPageToken = strings.Join([]string{last.Namespace, last.Scaler, last.Role}, "/")
			return answer
		}
		answer.Observations = append(answer.Observations, o)
	}
	return answer
}

// parsePageToken reads the last role of the page before. Names have no slash.
func parsePageToken(token string) (key, error) {
	if token == "" {
		return key{}, nil
	}
	parts := strings.Split(token, "/")
	if len(parts) != 3 {
		return key{}, status.Error(codes.InvalidArgument, "page_token is not the next_page_token of an answer")
	}
	return key{parts[0], parts[1], parts[2]}, nil
}
