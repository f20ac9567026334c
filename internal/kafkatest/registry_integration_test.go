// SPDX-License-Identifier: Apache-2.0

//go:build integration

package kafkatest

import (
	"encoding/json"
	"net/http"
	"testing"
)

func TestRegistrySpeaksConfluentsProtocol(t *testing.T) {
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, RegistryURL(t)+"/subjects/kafkatest-unknown/versions", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var answer struct {
		Code int `json:"error_code"`
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusNotFound || answer.Code != 40401 {
		t.Errorf("an unknown subject has status %d and code %d, want 404 and 40401", response.StatusCode, answer.Code)
	}
}
