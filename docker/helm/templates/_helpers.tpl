{{- define "dueq.name" -}}
{{- contains "dueq" .Release.Name | ternary .Release.Name (printf "%s-dueq" .Release.Name) | trunc 63 | trimSuffix "-" -}}
{{- end }}

{{- define "dueq.selector" -}}
app.kubernetes.io/name: dueq
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "dueq.labels" -}}
{{ include "dueq.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "dueq.scaled" -}}
{{- if or .Values.autoscaling.hpa.enabled .Values.autoscaling.keda.enabled }}yes{{ end -}}
{{- end }}

{{/* The files that dueq reads: variable, name of the file, and the Secret with its key. */}}
{{- define "dueq.files" -}}
{{- range list
  (list "DUEQ_API_KEY_FILE" "keys" .Values.secrets.keys)
  (list "DUEQ_SIGNING_SECRET_FILE" "signing-secret" .Values.secrets.signing)
  (list "DUEQ_REDIS_URL_FILE" "redis-url" .Values.secrets.redisUrl)
  (list "DUEQ_REDIS_PASSWORD_FILE" "redis-password" .Values.secrets.redisPassword)
  (list "DUEQ_REDIS_CA" "redis-ca.pem" .Values.secrets.redisCa)
  (list "DUEQ_REDIS_CERT" "redis-cert.pem" .Values.secrets.redisCert)
  (list "DUEQ_REDIS_KEY" "redis-key.pem" .Values.secrets.redisKey)
}}
{{- $secret := index . 2 }}
{{- if $secret.name }}
- {{ dict "variable" (index . 0) "path" (index . 1) "name" $secret.name "key" $secret.key | toJson }}
{{- end }}
{{- end }}
{{- end }}

{{/* Refuses values that contradict each other; values.schema.json says what each may be. */}}
{{- define "dueq.check" -}}
{{- $redis := .Values.redis }}
{{- $urls := concat (list $redis.url) $redis.sentinel.urls $redis.cluster.urls }}
{{- $given := list }}
{{- if $redis.url }}{{ $given = append $given "redis.url" }}{{ end }}
{{- if $redis.sentinel.urls }}{{ $given = append $given "redis.sentinel.urls" }}{{ end }}
{{- if $redis.cluster.urls }}{{ $given = append $given "redis.cluster.urls" }}{{ end }}
{{- if .Values.secrets.redisUrl.name }}{{ $given = append $given "secrets.redisUrl.name" }}{{ end }}
{{- if not $given }}
{{- fail "no Redis: set one of redis.url, redis.sentinel.urls, redis.cluster.urls, and secrets.redisUrl.name" }}
{{- else if gt (len $given) 1 }}
{{- fail (printf "more than one Redis: %s; keep one" (join " and " $given)) }}
{{- end }}
{{- range $urls }}
{{- if regexMatch "//[^/@]*:[^/@]*@" . }}
{{- fail "a URL of Redis has a password, which everyone who reads the Deployment would see: set secrets.redisUrl.name or secrets.redisPassword.name" }}
{{- end }}
{{- end }}
{{- if or (index .Values.settings "notify-url") (regexMatch "@" (index .Values.settings "callback-proxy" | default "" | toString)) }}
{{- fail "notify-url, and the password of callback-proxy, are secrets: set DUEQ_NOTIFY_URL or DUEQ_CALLBACK_PROXY in env, with valueFrom.secretKeyRef" }}
{{- end }}
{{- if and (or $redis.sentinel.master $redis.sentinel.user $redis.sentinel.db $redis.sentinel.tls) (or $redis.url $redis.cluster.urls) }}
{{- fail "redis.sentinel has settings, but there are no Sentinels: set redis.sentinel.urls or secrets.redisUrl.name" }}
{{- end }}
{{- if ne (empty .Values.secrets.redisCert.name) (empty .Values.secrets.redisKey.name) }}
{{- fail "a certificate needs its key: set both secrets.redisCert.name and secrets.redisKey.name" }}
{{- end }}
{{- if not .Values.secrets.keys.name }}
{{- fail "no API keys: set secrets.keys.name to a Secret with lines of `dueq keys new`" }}
{{- end }}
{{- if and .Values.ingress.enabled (not .Values.ingress.host) }}
{{- fail "ingress.enabled without ingress.host" }}
{{- end }}
{{- if and .Values.serviceMonitor.enabled (not .Values.serviceMonitor.token.name) }}
{{- fail "serviceMonitor.enabled without serviceMonitor.token.name: a Secret with a key that may read metrics" }}
{{- end }}
{{- with .Values.autoscaling }}
{{- if and .hpa.enabled .keda.enabled }}
{{- fail "autoscaling.hpa and autoscaling.keda are both enabled, and would work against each other: keep one" }}
{{- end }}
{{- if and .keda.enabled (not .keda.triggers) }}
{{- fail "autoscaling.keda.enabled without autoscaling.keda.triggers" }}
{{- end }}
{{- if gt (int .minReplicas) (int .maxReplicas) }}
{{- fail (printf "autoscaling.minReplicas is %d, more than autoscaling.maxReplicas, %d" (int .minReplicas) (int .maxReplicas)) }}
{{- end }}
{{- end }}
{{- end }}
