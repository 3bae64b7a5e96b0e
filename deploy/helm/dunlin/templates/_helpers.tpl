{{- define "dunlin.name" -}}
{{- default .Release.Name .Values.nameOverride | trunc 52 | trimSuffix "-" -}}
{{- end }}

{{- define "dunlin.selector" -}}
app.kubernetes.io/name: dunlin
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "dunlin.labels" -}}
{{ include "dunlin.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "dunlin.image" -}}
{{ .Values.image.repository }}:{{ default (printf "%s%s" .Chart.AppVersion (ternary "-cuda" "" .Values.gpu.enabled)) .Values.image.tag }}
{{- end }}

{{- /* Whether clients must show certificates, which a kubelet has not got. "": no. */ -}}
{{- define "dunlin.mutualTls" -}}
{{- if and .Values.tls.clientCaSecretName .Values.tls.requireClientCertificate -}}true{{- end -}}
{{- end }}

{{- /* The server's config. What .Values.config has counts. */ -}}
{{- define "dunlin.config" -}}
{{- $name := include "dunlin.name" . -}}
{{- $ns := .Release.Namespace -}}
{{- $hosts := printf "%s %s.%s %s.%s.svc %s.%s.svc.cluster.local %s" $name $name $ns $name $ns $name $ns .Values.hostNames | trim -}}
{{- $path := ternary (printf "/models/%s" .Values.model.subdirectory) "/models" (ne .Values.model.subdirectory "") -}}
{{- $model := dict "name" .Values.model.name "path" $path "precisions" .Values.model.precisions -}}
{{- $compute := dict -}}
{{- if .Values.gpu.enabled -}}
{{- $_ := set $model "device" "cuda" -}}
{{- $_ := set $compute "cublas_library" .Values.gpu.cublasLibrary -}}
{{- else -}}
{{- $_ := set $model "device" "cpu" -}}
{{- end -}}
{{- $closed := and .Values.tls.secretName .Values.access.keysSecretName -}}
{{- $access := dict "behind_proxy" (not $closed) "admin_without_keys" .Values.access.adminWithoutKeys -}}
{{- if .Values.access.keysSecretName -}}
{{- $_ := set $access "keys_file" "/etc/dunlin-keys/keys.json" -}}
{{- end -}}
{{- $tls := dict -}}
{{- if .Values.tls.secretName -}}
{{- $tls = dict "cert_file" "/etc/dunlin-tls/tls.crt" "key_file" "/etc/dunlin-tls/tls.key" -}}
{{- end -}}
{{- if .Values.tls.clientCaSecretName -}}
{{- $_ := set $tls "client_ca_file" "/etc/dunlin-client-ca/ca.crt" -}}
{{- $_ := set $tls "require_client_certificate" .Values.tls.requireClientCertificate -}}
{{- end -}}
{{- $config := dict
  "listen" (dict "grpc" "0.0.0.0:50051" "http" "0.0.0.0:8080" "http_host_names" $hosts)
  "access" $access "tls" $tls "compute" $compute
  "log" (dict "format" "json")
  "limits" (dict "drain_timeout_ms" (mul .Values.drainSeconds 1000))
  "models" (list (mergeOverwrite $model (deepCopy .Values.model.options))) -}}
{{- mergeOverwrite $config (deepCopy .Values.config) | toPrettyJson -}}
{{- end }}

{{- /* healthcheck of a client with a certificate, in the pod. */ -}}
{{- define "dunlin.healthcheck" -}}
exec:
  command:
    - /opt/dunlin/bin/dunlin
    - healthcheck
    - --address=127.0.0.1:50051
    - --tls-ca=/etc/dunlin-probe/ca.crt
    - --tls-cert=/etc/dunlin-probe/tls.crt
    - --tls-key=/etc/dunlin-probe/tls.key
    {{- with .Values.tls.serverName }}
    - --tls-server-name={{ . }}
    {{- end }}
{{- end }}

{{- /* GET of a path of the HTTP port. Called with (list PATH .) */ -}}
{{- define "dunlin.get" -}}
{{- $root := index . 1 -}}
httpGet:
  path: {{ index . 0 }}
  port: http
  {{- if $root.Values.tls.secretName }}
  scheme: HTTPS
  {{- end }}
{{- end }}
