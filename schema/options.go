// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"
)

// optionError keeps the text of a refused option and matches ErrInvalidOption.
type optionError struct{ text string }

func (e *optionError) Error() string { return e.text }
func (e *optionError) Unwrap() error { return ErrInvalidOption }

func badOption(format string, args ...any) error {
	return &optionError{fmt.Sprintf(format, args...)}
}

// setPositive sets an option that must be above zero.
func setPositive[T ~int | ~int64](field *T, value T, what string, refuse func(format string, args ...any)) {
	if value <= 0 {
		refuse("%s %v is not positive", what, value)
		return
	}
	*field = value
}

// setBackoff sets a range of pauses.
func setBackoff(first, last *time.Duration, initial, longest time.Duration, what string, refuse func(format string, args ...any)) {
	if initial <= 0 || longest < initial {
		refuse("%s %v to %v is not a positive range", what, initial, longest)
		return
	}
	*first, *last = initial, longest
}

// RegistryClientOption configures a [RegistryClient].
type RegistryClientOption func(*RegistryClient)

// clientOptions holds what is only needed while a client is built.
type clientOptions struct {
	httpClient  *http.Client
	tlsConfig   *tls.Config
	proxy       *url.URL
	shuffle     bool
	credentials []string // names of the options that set them
	problems    []error
}

func (o *clientOptions) conflicts() []error {
	var problems []error
	if o.httpClient != nil && (o.tlsConfig != nil || o.proxy != nil) {
		problems = append(problems, badOption("WithHTTPClient excludes WithTLSConfig and WithProxy: set them on its transport"))
	}
	if len(o.credentials) > 1 {
		problems = append(problems, badOption("more than one credential option: %v", o.credentials))
	}
	return problems
}

func (c *RegistryClient) refuse(format string, args ...any) {
	c.options.problems = append(c.options.problems, badOption(format, args...))
}

func (c *RegistryClient) setCredentials(option string, authorize func(*http.Request) error) {
	c.options.credentials = append(c.options.credentials, option)
	c.authorize = authorize
}

// WithHTTPClient sends requests through httpClient, which stays the caller's
// and is never closed or changed. The request timeout applies on top of the
// client's own.
func WithHTTPClient(httpClient *http.Client) RegistryClientOption {
	return func(c *RegistryClient) {
		if httpClient == nil {
			c.refuse("HTTP client must not be nil")
			return
		}
		c.options.httpClient = httpClient
	}
}

// WithTLSConfig sets the TLS configuration of the client's own transport:
// trusted roots, client certificates, minimum version. A copy is kept.
func WithTLSConfig(config *tls.Config) RegistryClientOption {
	return func(c *RegistryClient) {
		if config == nil {
			c.refuse("TLS configuration must not be nil")
			return
		}
		c.options.tlsConfig = config.Clone()
	}
}

// WithProxy sends requests through a proxy instead of the one that the
// environment names.
func WithProxy(proxy *url.URL) RegistryClientOption {
	return func(c *RegistryClient) {
		if proxy == nil {
			c.refuse("proxy must not be nil")
			return
		}
		address := *proxy
		c.options.proxy = &address
	}
}

// WithMaxRetries sets how often a call goes over the base URLs again after the
// first time. The default is 2; 0 disables retries; a negative number is an
// error.
func WithMaxRetries(maxRetries int) RegistryClientOption {
	return func(c *RegistryClient) {
		if maxRetries < 0 {
			c.refuse("maxRetries must not be negative")
			return
		}
		c.maxRetries = maxRetries
	}
}

// WithRetryBackoff sets the pause before the first retry and the longest one;
// pauses double in between and are jittered down to half. The defaults are 50
// milliseconds and 2 seconds. A registry's Retry-After overrides a shorter
// pause. Both must be positive, and initial not above longest.
func WithRetryBackoff(initial, longest time.Duration) RegistryClientOption {
	return func(c *RegistryClient) {
		setBackoff(&c.backoff, &c.maxBackoff, initial, longest, "retry backoff", c.refuse)
	}
}

// WithRequestTimeout bounds each attempt, from connecting to the last byte of
// the answer. The default is 5 seconds. It must be positive.
func WithRequestTimeout(timeout time.Duration) RegistryClientOption {
	return func(c *RegistryClient) { setPositive(&c.requestTimeout, timeout, "request timeout", c.refuse) }
}

// WithMaxAnswerBytes bounds the body of an answer. The default is 16 MiB; a
// larger answer is an error. It must be positive.
func WithMaxAnswerBytes(limit int64) RegistryClientOption {
	return func(c *RegistryClient) { setPositive(&c.maxAnswerBytes, limit, "answer limit", c.refuse) }
}

// WithShuffledURLs puts several base URLs in random order, so that many
// processes do not all prefer the same one.
func WithShuffledURLs() RegistryClientOption {
	return func(c *RegistryClient) { c.options.shuffle = true }
}

// WithBasicAuth sends a user name and password with every request.
func WithBasicAuth(username, password string) RegistryClientOption {
	return func(c *RegistryClient) {
		c.setCredentials("WithBasicAuth", func(r *http.Request) error {
			r.SetBasicAuth(username, password)
			return nil
		})
	}
}

// WithBearerToken sends a fixed bearer token with every request.
func WithBearerToken(token string) RegistryClientOption {
	return func(c *RegistryClient) {
		c.setCredentials("WithBearerToken", func(r *http.Request) error {
			r.Header.Set("Authorization", "Bearer "+token)
			return nil
		})
	}
}

// WithTokenSource asks source for a bearer token before every attempt. It must
// be safe for concurrent use and may cache; its context ends with the attempt. An
// error of source fails the attempt like a lost connection. When the registry
// refuses a token with status 401, the source is asked once more and the request
// sent again with what it returns.
func WithTokenSource(source func(ctx context.Context) (string, error)) RegistryClientOption {
	return func(c *RegistryClient) {
		if source == nil {
			c.refuse("token source must not be nil")
			return
		}
		c.freshCredentials = true
		c.setCredentials("WithTokenSource", func(r *http.Request) error {
			token, err := source(r.Context())
			if err != nil {
				return err
			}
			r.Header.Set("Authorization", "Bearer "+token)
			return nil
		})
	}
}

// WithHeader sets a header on every request, such as a tenant or a User-Agent.
// Accept, Content-Type and credentials are set by the client.
func WithHeader(key, value string) RegistryClientOption {
	return func(c *RegistryClient) { c.header.Set(key, value) }
}

// WithRequestHook runs hook on each attempt just before it is sent, to sign it
// or to add headers. It must be safe for concurrent use. An error fails the
// attempt like a lost connection.
func WithRequestHook(hook func(*http.Request) error) RegistryClientOption {
	return func(c *RegistryClient) {
		if hook == nil {
			c.refuse("request hook must not be nil")
			return
		}
		c.requestHook = hook
	}
}

// WithLogger logs failed attempts at Warn and others at Debug, and what a cache
// of this client does in the background. The default logs nothing.
func WithLogger(logger *slog.Logger) RegistryClientOption {
	return func(c *RegistryClient) {
		if logger == nil {
			c.refuse("logger must not be nil")
			return
		}
		c.logger = logger
	}
}

// WithRegistryHooks sets callbacks for metrics and tracing.
func WithRegistryHooks(hooks RegistryHooks) RegistryClientOption {
	return func(c *RegistryClient) { c.hooks = hooks }
}
