// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"context"
	"encoding/json"
	"net/http"
)

// Config is what a registry is configured with, globally or for one subject.
// What is not set is left as it is by a write, and not stated by an answer. The
// metadata and rule sets are JSON.
type Config struct {
	Compatibility      string // level, such as "BACKWARD"
	CompatibilityGroup string // metadata property: only versions of one value are compared
	Normalize          *bool  // schemas are compared and stored in their normal form
	Alias              string // subject that this one stands for
	DefaultMetadata    []byte // for schemas that are registered without
	OverrideMetadata   []byte // for all schemas, in the place of their own
	DefaultRuleSet     []byte
	OverrideRuleSet    []byte
}

// configBody is a Config as requests and answers carry it. Answers to reads name
// the level in another way.
type configBody struct {
	Compatibility      string          `json:"compatibility,omitempty"`
	CompatibilityLevel string          `json:"compatibilityLevel,omitempty"`
	CompatibilityGroup string          `json:"compatibilityGroup,omitempty"`
	Normalize          *bool           `json:"normalize,omitempty"`
	Alias              string          `json:"alias,omitempty"`
	DefaultMetadata    json.RawMessage `json:"defaultMetadata,omitempty"`
	OverrideMetadata   json.RawMessage `json:"overrideMetadata,omitempty"`
	DefaultRuleSet     json.RawMessage `json:"defaultRuleSet,omitempty"`
	OverrideRuleSet    json.RawMessage `json:"overrideRuleSet,omitempty"`
}

func (c Config) body() configBody {
	return configBody{
		Compatibility: c.Compatibility, CompatibilityGroup: c.CompatibilityGroup, Normalize: c.Normalize, Alias: c.Alias,
		DefaultMetadata: c.DefaultMetadata, OverrideMetadata: c.OverrideMetadata,
		DefaultRuleSet: c.DefaultRuleSet, OverrideRuleSet: c.OverrideRuleSet,
	}
}

// configOf reads an answer about a configuration.
func configOf(data []byte, err error) (Config, error) {
	if err != nil {
		return Config{}, err
	}
	var body configBody
	if err := json.Unmarshal(data, &body); err != nil {
		return Config{}, unreadable("cannot parse schema registry response", err)
	}
	if body.Compatibility == "" {
		body.Compatibility = body.CompatibilityLevel
	}
	stated := func(raw json.RawMessage) []byte {
		if string(raw) == "null" {
			return nil
		}
		return raw
	}
	return Config{
		Compatibility: body.Compatibility, CompatibilityGroup: body.CompatibilityGroup, Normalize: body.Normalize, Alias: body.Alias,
		DefaultMetadata: stated(body.DefaultMetadata), OverrideMetadata: stated(body.OverrideMetadata),
		DefaultRuleSet: stated(body.DefaultRuleSet), OverrideRuleSet: stated(body.OverrideRuleSet),
	}, nil
}

// Config returns the global configuration.
func (c *RegistryClient) Config(ctx context.Context) (Config, error) {
	return configOf(c.call(ctx, request{method: http.MethodGet, path: "/config"}))
}

// SubjectConfig returns the configuration that subject has of its own. Without
// one the error matches [ErrNotConfigured] or, in some registries, the global
// one is returned.
func (c *RegistryClient) SubjectConfig(ctx context.Context, subject string) (Config, error) {
	return configOf(c.callFor(ctx, http.MethodGet, "/config/", subject, "", nil, nil))
}

// EffectiveConfig returns the configuration that applies to subject: its own,
// completed by the global one.
func (c *RegistryClient) EffectiveConfig(ctx context.Context, subject string) (Config, error) {
	return configOf(c.callFor(ctx, http.MethodGet, "/config/", subject, "", globalDefault, nil))
}

// SetConfig changes the global configuration and returns what the registry took.
func (c *RegistryClient) SetConfig(ctx context.Context, config Config) (Config, error) {
	return configOf(c.call(ctx, request{method: http.MethodPut, path: "/config", body: config.body()}))
}

// SetSubjectConfig changes the configuration of subject and returns what the
// registry took.
func (c *RegistryClient) SetSubjectConfig(ctx context.Context, subject string, config Config) (Config, error) {
	return configOf(c.callFor(ctx, http.MethodPut, "/config/", subject, "", nil, config.body()))
}
