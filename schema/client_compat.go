// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
)

// globalDefault asks for the level or mode in force instead of the subject's
// own.
var globalDefault = url.Values{"defaultToGlobal": {"true"}}

// SubjectCompatibility returns the compatibility level that subject has of its
// own. Without one the error matches [ErrNotConfigured] or, in some registries,
// the global level is returned.
func (c *RegistryClient) SubjectCompatibility(ctx context.Context, subject string) (string, error) {
	return member("compatibilityLevel")(c.callFor(ctx, http.MethodGet, "/config/", subject, "", nil, nil))
}

// EffectiveCompatibility returns the compatibility level that applies to
// subject: its own or the global one.
func (c *RegistryClient) EffectiveCompatibility(ctx context.Context, subject string) (string, error) {
	return member("compatibilityLevel")(c.callFor(ctx, http.MethodGet, "/config/", subject, "", globalDefault, nil))
}

// Compatibility returns the global compatibility level.
func (c *RegistryClient) Compatibility(ctx context.Context) (string, error) {
	return member("compatibilityLevel")(c.call(ctx, request{method: http.MethodGet, path: "/config"}))
}

// SetSubjectCompatibility sets the compatibility level of subject and returns
// what the registry took.
func (c *RegistryClient) SetSubjectCompatibility(ctx context.Context, subject, level string) (string, error) {
	body := map[string]string{"compatibility": level}
	return member("compatibility")(c.callFor(ctx, http.MethodPut, "/config/", subject, "", nil, body))
}

// SetCompatibility sets the global compatibility level and returns what the
// registry took.
func (c *RegistryClient) SetCompatibility(ctx context.Context, level string) (string, error) {
	return member("compatibility")(c.call(ctx, request{
		method: http.MethodPut, path: "/config", body: map[string]string{"compatibility": level},
	}))
}

// DeleteSubjectCompatibility removes the level that subject has of its own, so
// that the global one applies, and returns the level the registry answers.
func (c *RegistryClient) DeleteSubjectCompatibility(ctx context.Context, subject string) (string, error) {
	return levelOf(c.callFor(ctx, http.MethodDelete, "/config/", subject, "", nil, nil))
}

// DeleteCompatibility resets the global compatibility level and returns the
// level the registry answers.
func (c *RegistryClient) DeleteCompatibility(ctx context.Context) (string, error) {
	return levelOf(c.call(ctx, request{method: http.MethodDelete, path: "/config"}))
}

// Mode returns the global mode, such as "READWRITE" or "READONLY".
func (c *RegistryClient) Mode(ctx context.Context) (string, error) {
	return member("mode")(c.call(ctx, request{method: http.MethodGet, path: "/mode"}))
}

// SubjectMode returns the mode that subject has of its own. Without one the
// error matches [ErrNotConfigured].
func (c *RegistryClient) SubjectMode(ctx context.Context, subject string) (string, error) {
	return member("mode")(c.callFor(ctx, http.MethodGet, "/mode/", subject, "", nil, nil))
}

// EffectiveMode returns the mode that applies to subject: its own or the
// global one.
func (c *RegistryClient) EffectiveMode(ctx context.Context, subject string) (string, error) {
	return member("mode")(c.callFor(ctx, http.MethodGet, "/mode/", subject, "", globalDefault, nil))
}

// SetMode sets the global mode and returns what the registry took.
func (c *RegistryClient) SetMode(ctx context.Context, mode string) (string, error) {
	return member("mode")(c.call(ctx, request{
		method: http.MethodPut, path: "/mode", body: map[string]string{"mode": mode},
	}))
}

// SetSubjectMode sets the mode of subject and returns what the registry took.
func (c *RegistryClient) SetSubjectMode(ctx context.Context, subject, mode string) (string, error) {
	body := map[string]string{"mode": mode}
	return member("mode")(c.callFor(ctx, http.MethodPut, "/mode/", subject, "", nil, body))
}

// DeleteSubjectMode removes the mode that subject has of its own and returns
// the one it had.
func (c *RegistryClient) DeleteSubjectMode(ctx context.Context, subject string) (string, error) {
	return member("mode")(c.callFor(ctx, http.MethodDelete, "/mode/", subject, "", nil, nil))
}

// CheckCompatibility asks whether schema may become the next version of
// subject, measured against all versions that its compatibility level names.
// Incompatibilities holds the registry's explanations, where it gives any.
func (c *RegistryClient) CheckCompatibility(ctx context.Context, subject string, schema NewSchema, options ...RequestOption) (CompatibilityResult, error) {
	return c.checkCompatibility(ctx, subject, "", schema, options)
}

// CheckVersionCompatibility asks whether schema is compatible with one version
// of subject. A version below 1 means the latest.
func (c *RegistryClient) CheckVersionCompatibility(ctx context.Context, subject string, version int, schema NewSchema, options ...RequestOption) (CompatibilityResult, error) {
	at := "/latest"
	if version > 0 {
		at = "/" + strconv.Itoa(version)
	}
	return c.checkCompatibility(ctx, subject, at, schema, options)
}

func (c *RegistryClient) checkCompatibility(ctx context.Context, subject, version string, schema NewSchema, options []RequestOption) (CompatibilityResult, error) {
	query := queryOf(append([]RequestOption{WithQuery("verbose", "true")}, options...))
	data, err := c.callFor(ctx, http.MethodPost, "/compatibility/subjects/", subject, "/versions"+version, query, schema.body())
	if err != nil {
		return CompatibilityResult{}, err
	}
	object, err := parseObject(data)
	if err != nil {
		return CompatibilityResult{}, err
	}
	var result CompatibilityResult
	if !object.has("is_compatible") || json.Unmarshal(object["is_compatible"], &result.Compatible) != nil {
		return CompatibilityResult{}, unreadable("schema registry response has no boolean is_compatible", nil)
	}
	if object.has("messages") {
		if result.Incompatibilities, err = parseArray[string](object["messages"]); err != nil {
			return CompatibilityResult{}, err
		}
	}
	if result.Compatible {
		result.Incompatibilities = nil
	}
	return result, nil
}

// member returns a reader of one text member of an answer.
func member(key string) func([]byte, error) (string, error) {
	return func(data []byte, err error) (string, error) {
		if err != nil {
			return "", err
		}
		object, err := parseObject(data)
		if err != nil {
			return "", err
		}
		return object.text(key)
	}
}

// levelOf reads a deleted level, which registries spell as in an answer to GET,
// as in one to PUT, or as a bare text.
func levelOf(data []byte, err error) (string, error) {
	if err != nil {
		return "", err
	}
	var bare string
	if json.Unmarshal(data, &bare) == nil {
		return bare, nil
	}
	object, err := parseObject(data)
	if err != nil {
		return "", err
	}
	if object.has("compatibility") {
		return object.text("compatibility")
	}
	return object.text("compatibilityLevel")
}
