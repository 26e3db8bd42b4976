{{- define "kcagc.labels" -}}
app.kubernetes.io/name: kcagc
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: {{ .Values.role }}
{{- end }}
{{- define "kcagc.image" -}}
image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- end }}
{{- define "kcagc.podSecurity" -}}
automountServiceAccountToken: false
enableServiceLinks: false
terminationGracePeriodSeconds: 30
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile:
    type: RuntimeDefault
{{- end }}
{{- define "kcagc.containerSecurity" -}}
securityContext:
  readOnlyRootFilesystem: true
  allowPrivilegeEscalation: false
  capabilities:
    drop: [ALL]
{{- end }}
{{- define "kcagc.partyContainer" -}}
- name: party
  {{- include "kcagc.image" . | nindent 2 }}
  {{- include "kcagc.containerSecurity" . | nindent 2 }}
  args:
    - party
    - --log-json
    {{- if .Values.party.wait }}
    - --wait
    {{- end }}
  env:
    - name: KCAGC_CONFIG
      value: /role/kcagc.toml
    - name: KCAGC_STATE
      value: /work/state
    - name: KCAGC_OUTPUT
      value: /work/result
    - name: KCAGC_FEATURES
      value: {{ printf "/data/%s" .Values.party.features | quote }}
    - name: KCAGC_GRAPH
      value: {{ printf "/data/%s" .Values.party.graph | quote }}
  resources:
    {{- toYaml .Values.resources | nindent 4 }}
  volumeMounts:
    - {name: role, mountPath: /role, readOnly: true}
    - {name: data, mountPath: /data, readOnly: true}
    - {name: work, mountPath: /work}
    - {name: tmp, mountPath: /tmp}
{{- end }}
{{- define "kcagc.partyVolumes" -}}
- name: role
  secret:
    secretName: {{ .Values.party.secret | quote }}
    defaultMode: 0440
    items:
      - {key: kcagc.toml, path: kcagc.toml}
      - {key: ca.pem, path: ca.pem}
      - {key: certificate.pem, path: certificate.pem}
      - {key: identity.pem, path: private/identity.pem}
      - {key: tls-key.pem, path: private/tls-key.pem}
- name: data
  persistentVolumeClaim:
    claimName: {{ .Values.party.dataClaim | quote }}
    readOnly: true
- name: tmp
  emptyDir: {sizeLimit: 64Mi}
{{- end }}
