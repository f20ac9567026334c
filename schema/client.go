// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

const (
	mediaType        = "application/vnd.schemaregistry.v1+json"
	defaultUserAgent = "krabka-streams-go"

	defaultMaxRetries     = 2
	defaultRequestTimeout = 5 * time.Second
	defaultBackoff        = 50 * time.Millisecond
	defaultMaxBackoff     = 2 * time.Second

	// maxIdleConns keeps the connections of a prewarm for the next requests.
	maxIdleConns = 16

	// maxRetryAfter is the longest pause that a registry can impose on a caller;
	// an answer that asks for more ends the call.
	maxRetryAfter = 30 * time.Second

	defaultMaxAnswerBytes = 16 << 20
	maxErrorBodyBytes     = 64 << 10 // read from an error answer
	maxErrorTextBytes     = 4 << 10  // shown of an error answer
)

// RegistryClient talks to a Confluent-compatible schema registry over HTTP.
//
// Every method blocks until it has an answer, ctx ends or the attempts are used
// up. An attempt that is not answered within the request timeout is given up.
// Transport failures, statuses 408 and 429, and server errors other than 501
// and 505 are tried again with growing, jittered pauses; with several base URLs
// each one is tried before a pause. Failures are [*RegistryError].
//
// A RegistryClient is safe for concurrent use by multiple goroutines. The zero
// value is not usable.
type RegistryClient struct {
	bases     []*url.URL
	preferred atomic.Uint32 // index into bases of the last one that answered

	http           *http.Client
	ownTransport   *http.Transport // nil with a caller's client
	maxRetries     int
	requestTimeout time.Duration
	backoff        time.Duration
	maxBackoff     time.Duration
	maxAnswerBytes int64
	header         http.Header
	authorize      func(*http.Request) error // nil without credentials
	// freshCredentials says that authorize may give other credentials when asked
	// again.
	freshCredentials bool
	requestHook      func(*http.Request) error // nil without a hook
	hooks            RegistryHooks
	logger           *slog.Logger

	options clientOptions
}

// RegistryHooks are optional callbacks for metrics and tracing. They run on the
// goroutine of the call and must not block.
type RegistryHooks struct {
	// Attempt runs after every HTTP attempt.
	Attempt func(RegistryAttempt)
}

// RegistryAttempt describes one HTTP attempt.
type RegistryAttempt struct {
	Method    string
	URL       string // without credentials
	Round     int    // 0 for the first round over the base URLs
	Status    int    // -1 without an answer
	ErrorCode int    // the registry's own code, or 0
	Duration  time.Duration
	Err       error // nil for an answer with a 2xx status
}

// NewRegistryClient returns a client for the registry at baseURL, which may be
// a comma-separated list of addresses of one registry. A context path is kept
// and trailing slashes are dropped. User and password in an address become
// basic credentials for it, unless an option sets credentials.
//
// The defaults are an HTTP client of its own, 2 retries, 5 seconds for each
// attempt, and no credentials. All problems with the address and the options
// are reported at once, joined.
func NewRegistryClient(baseURL string, options ...RegistryClientOption) (*RegistryClient, error) {
	c := &RegistryClient{
		maxRetries:     defaultMaxRetries,
		requestTimeout: defaultRequestTimeout,
		backoff:        defaultBackoff,
		maxBackoff:     defaultMaxBackoff,
		maxAnswerBytes: defaultMaxAnswerBytes,
		header:         http.Header{"User-Agent": {defaultUserAgent}},
		logger:         slog.New(slog.DiscardHandler),
	}
	for _, option := range options {
		option(c)
	}
	problems := c.options.problems
	for base := range strings.SplitSeq(baseURL, ",") {
		parsed, err := parseBaseURL(strings.TrimSpace(base))
		if err != nil {
			problems = append(problems, err)
			continue
		}
		c.bases = append(c.bases, parsed)
	}
	problems = append(problems, c.options.conflicts()...)
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	if c.options.shuffle {
		rand.Shuffle(len(c.bases), func(i, j int) { c.bases[i], c.bases[j] = c.bases[j], c.bases[i] })
	}
	c.http = c.newHTTPClient()
	return c, nil
}

// CloseIdleConnections closes connections that are kept for reuse, unless they
// belong to a client given with [WithHTTPClient]. The RegistryClient stays
// usable.
func (c *RegistryClient) CloseIdleConnections() {
	if c.ownTransport != nil {
		c.ownTransport.CloseIdleConnections()
	}
}

func parseBaseURL(base string) (*url.URL, error) {
	parsed, err := url.Parse(base)
	if err != nil {
		// The error of url.Parse repeats the address, and with it a password.
		var parse *url.Error
		if errors.As(err, &parse) {
			err = parse.Err
		}
		return nil, fmt.Errorf("invalid registry base URL %q: %w", withoutUserInfo(base), err)
	}
	shown := base
	if parsed.User != nil {
		shown = parsed.Redacted()
	}
	switch {
	case parsed.Scheme == "" || parsed.Host == "":
		return nil, fmt.Errorf("registry base URL %q has no scheme or host", shown)
	case parsed.Scheme != "http" && parsed.Scheme != "https":
		return nil, fmt.Errorf("registry base URL %q is neither http nor https", shown)
	case parsed.RawQuery != "" || parsed.ForceQuery || parsed.Fragment != "":
		return nil, fmt.Errorf("registry base URL %q has a query or a fragment", shown)
	}
	return parsed, nil
}

// addressOf returns the address that paths are appended to, without credentials.
func addressOf(base *url.URL) string {
	address := url.URL{Scheme: base.Scheme, Host: base.Host, Path: base.Path, RawPath: base.RawPath}
	return strings.TrimRight(address.String(), "/")
}

func withoutUserInfo(base string) string {
	at := strings.LastIndexByte(base, '@')
	if at < 0 {
		return base
	}
	if scheme := strings.Index(base, "//"); scheme >= 0 && scheme < at {
		return base[:scheme+2] + base[at+1:]
	}
	return base[at+1:]
}

func (c *RegistryClient) newHTTPClient() *http.Client {
	var client http.Client
	if c.options.httpClient != nil {
		client = *c.options.httpClient
	} else {
		c.ownTransport = http.DefaultTransport.(*http.Transport).Clone()
		c.ownTransport.MaxIdleConnsPerHost = maxIdleConns
		if c.options.tlsConfig != nil {
			c.ownTransport.TLSClientConfig = c.options.tlsConfig
		}
		if c.options.proxy != nil {
			c.ownTransport.Proxy = http.ProxyURL(c.options.proxy)
		}
		client.Transport = c.ownTransport
	}
	if client.CheckRedirect == nil {
		client.CheckRedirect = keepMethod
	}
	return &client
}

// keepMethod follows redirects that keep the method and ten at most. One that
// would turn a write into a read is left as the answer.
func keepMethod(next *http.Request, via []*http.Request) error {
	if next.Method != via[0].Method {
		return http.ErrUseLastResponse
	}
	if len(via) >= 10 {
		return errors.New("stopped after 10 redirects")
	}
	return nil
}

// request is one call of the registry's API.
type request struct {
	method string
	path   string // escaped, begins with a slash
	query  url.Values
	body   any // encoded as JSON unless nil
}

// call performs r with retries and failover and returns the body of a 2xx
// answer. The caller owns it.
func (c *RegistryClient) call(ctx context.Context, r request) ([]byte, error) {
	var body []byte
	if r.body != nil {
		var err error
		if body, err = json.Marshal(r.body); err != nil {
			return nil, &RegistryError{
				StatusCode: -1, Method: r.method, URL: r.path, text: "cannot encode registry request", cause: err,
			}
		}
	}
	for round := 0; ; round++ {
		var last *RegistryError
		first := c.preferred.Load()
		for i := range uint32(len(c.bases)) {
			at := (first + i) % uint32(len(c.bases))
			answer, failure := c.attempt(ctx, c.bases[at], r, body, round)
			if failure == nil {
				c.preferred.Store(at)
				return answer, nil
			}
			last = failure
			if ctx.Err() != nil || !failure.Retriable() {
				return nil, failure
			}
		}
		if round == c.maxRetries || last.RetryAfter > maxRetryAfter {
			return nil, last
		}
		if err := pause(ctx, max(jittered(c.backoff, c.maxBackoff, round), last.RetryAfter)); err != nil {
			ended := *last // hooks may have kept the last one
			ended.cause = joinCauses(err, last.cause)
			return nil, &ended
		}
	}
}

// joinCauses keeps both causes matchable in one line of text.
func joinCauses(first, second error) error {
	if second == nil {
		return first
	}
	return fmt.Errorf("%w; last failure: %w", first, second)
}

// pause waits for d, or returns the cause of ctx's end.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// jittered returns a pause between half of and the whole of initial doubled
// round times, at most limit.
func jittered(initial, limit time.Duration, round int) time.Duration {
	d := initial
	for range round {
		if d >= limit {
			break
		}
		d *= 2
	}
	d = min(d, limit)
	if d <= 0 {
		return 0
	}
	return d/2 + rand.N(d/2+1)
}

// attempt sends r once. Its failure is not yet final.
func (c *RegistryClient) attempt(ctx context.Context, base *url.URL, r request, body []byte, round int) ([]byte, *RegistryError) {
	target := addressOf(base) + r.path
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	start := time.Now()
	answer, status, failure := c.exchange(ctx, base, r.method, target, body)
	if status == http.StatusUnauthorized && c.freshCredentials {
		// The token has been revoked or has run out on the way.
		answer, status, failure = c.exchange(ctx, base, r.method, target, body)
	}
	event := RegistryAttempt{
		Method: r.method, URL: target, Round: round, Status: status, Duration: time.Since(start),
	}
	if failure != nil {
		failure.Method, failure.URL = r.method, target
		event.ErrorCode, event.Err = failure.ErrorCode, failure
		c.logger.LogAttrs(ctx, slog.LevelWarn, "schema registry request failed",
			slog.String("method", r.method), slog.String("url", target), slog.Int("status", status),
			slog.Int("error_code", failure.ErrorCode), slog.Int("round", round),
			slog.Duration("duration", event.Duration), slog.Any("error", failure))
	} else {
		c.logger.LogAttrs(ctx, slog.LevelDebug, "schema registry request",
			slog.String("method", r.method), slog.String("url", target), slog.Int("status", status),
			slog.Duration("duration", event.Duration))
	}
	if c.hooks.Attempt != nil {
		c.hooks.Attempt(event)
	}
	return answer, failure
}

func (c *RegistryClient) exchange(ctx context.Context, base *url.URL, method, target string, body []byte) (answer []byte, status int, failure *RegistryError) {
	fail := func(retriable bool, text string, cause error) ([]byte, int, *RegistryError) {
		return nil, -1, &RegistryError{StatusCode: -1, text: text, cause: cause, retriable: retriable}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.requestTimeout,
		fmt.Errorf("no answer within %v: %w", c.requestTimeout, context.DeadlineExceeded))
	defer cancel()
	var reader io.Reader
	if body != nil {
		reader = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, target, reader)
	if err != nil {
		return fail(false, "cannot encode registry request", err)
	}
	if err := c.prepare(req, base); err != nil {
		return fail(true, "schema registry request failed", fmt.Errorf("credentials for %s: %w", base.Host, err))
	}
	res, err := c.http.Do(req)
	if err != nil {
		return fail(true, "schema registry request failed", timeoutCause(ctx, err))
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return nil, res.StatusCode, statusError(res)
	}
	answer, err = io.ReadAll(io.LimitReader(res.Body, c.maxAnswerBytes+1))
	switch {
	case err != nil:
		return fail(true, "schema registry request failed", timeoutCause(ctx, err))
	case int64(len(answer)) > c.maxAnswerBytes:
		return fail(false, fmt.Sprintf("schema registry response is larger than %d bytes", c.maxAnswerBytes), nil)
	}
	return answer, res.StatusCode, nil
}

// prepare sets the headers of one attempt: defaults, the caller's, credentials,
// and last the caller's hook.
func (c *RegistryClient) prepare(req *http.Request, base *url.URL) error {
	req.Header = c.header.Clone()
	req.Header.Set("Accept", mediaType)
	if req.Body != nil {
		req.Header.Set("Content-Type", mediaType)
	}
	switch {
	case c.authorize != nil:
		if err := c.authorize(req); err != nil {
			return err
		}
	case base.User != nil:
		password, _ := base.User.Password()
		req.SetBasicAuth(base.User.Username(), password)
	}
	if c.requestHook != nil {
		return c.requestHook(req)
	}
	return nil
}

// timeoutCause adds why ctx ended to a transport error, which says only that it
// did.
func timeoutCause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", err, cause)
	}
	return err
}

// statusError reads an answer outside 2xx.
func statusError(res *http.Response) *RegistryError {
	var body []byte
	if res.StatusCode != http.StatusSwitchingProtocols { // what follows one has no end
		// A body that breaks off still tells more than none.
		body, _ = io.ReadAll(io.LimitReader(res.Body, maxErrorBodyBytes))
	}
	failure := &RegistryError{
		StatusCode: res.StatusCode,
		RetryAfter: retryAfter(res.Header.Get("Retry-After")),
		text:       fmt.Sprintf("schema registry returned HTTP %d", res.StatusCode),
	}
	if object, err := parseObject(body); err == nil {
		// Each stays unset where the registry does not state it.
		failure.ErrorCode, _ = object.optionalInteger("error_code")
		failure.Message, _ = object.optionalText("message")
	}
	if location := res.Header.Get("Location"); location != "" && res.StatusCode < 400 {
		failure.text += fmt.Sprintf(": redirect to %s would change the method", location)
		return failure
	}
	body = bytes.TrimRight(body, "\r\n")
	if len(body) > maxErrorTextBytes {
		body = append(body[:maxErrorTextBytes:maxErrorTextBytes], "..."...)
	}
	if len(body) > 0 {
		failure.text += ": " + string(body)
	}
	return failure
}

// retryAfter reads the header in either of its forms, seconds or a date.
func retryAfter(value string) time.Duration {
	if value == "" {
		return 0
	}
	if seconds, err := strconv.ParseInt(value, 10, 64); err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(max(0, min(seconds, 1<<30))) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}
