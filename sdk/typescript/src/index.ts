/// <reference lib="esnext.disposable" preserve="true" />
/** TypeScript SDK of PandaStack. */

export {
  type AppCreateOptions,
  type AppDomain,
  type AppDomainRecord,
  type AppInfo,
  AppsAPI,
  AppsAPI as AppsNamespace,
  type AppUpdateOptions,
  type DeploymentInfo,
  type EnvVar,
  type PreviewRepo,
} from "./apps.js";
export { AuthAPI } from "./auth.js";
export type { OnProgress, Progress } from "./body.js";
export {
  Client,
  Client as default,
  type MeInfo,
  PandaStack,
  type RequestOptions,
} from "./client.js";
export { CodeContext, type Execution, type Result, type RunCodeOptions } from "./code.js";
export {
  type CommandOutput,
  type ExecResult,
  type OutputCallbacks,
  RunningCommand,
} from "./command.js";
export type { ClientConfig } from "./config.js";
export type { RequestBytes } from "./core/call.js";
export type * as models from "./core/models.js";
export * as operations from "./core/operations.js";
export {
  Database,
  type DatabaseCloneOptions,
  type DatabaseCreateOptions,
  type DatabaseInfo,
  DatabasesAPI,
  DatabasesAPI as DatabasesNamespace,
  type DatabaseWaitOptions,
  type VerifyBackupOptions,
} from "./databases.js";
export {
  AuthError,
  BadRequestError,
  CapacityError,
  CommandCancelled,
  CommandError,
  ConflictError,
  type ErrorDetails,
  ExecInterrupted,
  ExploreError,
  NetworkError,
  NotFoundError,
  PandaStackError,
  QueryError,
  RateLimitError,
  SandboxTimeout,
  ServerError,
  TemplateBuildError,
  TimeoutError,
  WebhookSignatureError,
} from "./errors.js";
export { EventsAPI, type EventsFollowOptions, type WorkspaceEvent } from "./events.js";
export type { CommandLine, CommandOptions, ExecOptions, ExecStreamOptions } from "./exec.js";
export {
  ExecSocket,
  type ExecSocketOptions,
  type SocketCommandOptions,
} from "./exec-socket.js";
export type { BranchOutcome, Candidate, ExploreOptions, ExploreResult } from "./explore.js";
export {
  type FileChange,
  type FileInfo,
  FilesystemNamespace,
  FileWatch,
  type TransferOptions,
  type WriteOptions,
} from "./files.js";
export { ForkTree, type TreePromoteOptions } from "./fork-tree.js";
export {
  type FunctionCreateOptions,
  type FunctionDeployOptions,
  type FunctionInfo,
  type FunctionMetrics,
  type FunctionRun,
  type FunctionRunInfo,
  type FunctionRuntime,
  FunctionsAPI,
  FunctionsAPI as FunctionsNamespace,
  type FunctionUpdateOptions,
} from "./functions.js";
export {
  ApiKeysAPI,
  type CreatedToken,
  type KeyOptions,
  type TokenInfo,
  TokenNamespace,
} from "./keys.js";
export type { LogsOptions } from "./logs.js";
export { OrgsAPI } from "./orgs.js";
export { Ports, type PreviewOptions } from "./ports.js";
export {
  type FollowOptions,
  type ProcessEvent,
  Processes,
  type ProcessInfo,
  SandboxProcess,
  type SpawnOptions,
} from "./processes.js";
export {
  type ExecuteOptions,
  type QueryColumn,
  type QueryOptions,
  QueryResult,
  type QueryRow,
  type Statement,
} from "./queries.js";
export {
  CommandsNamespace,
  type DiffOptions,
  type ExecStreamCallbacks,
  type LifecycleInfo,
  type PromoteOptions,
  type PromoteResult,
  Sandbox,
  type SandboxForkOptions,
  type SandboxForkTreeOptions,
  type SandboxInfo,
} from "./sandbox.js";
export {
  type MachineKind,
  type SandboxCreateOptions,
  type SandboxListOptions,
  SandboxNamespace,
} from "./sandboxes.js";
export {
  type ScheduleCreateOptions,
  type ScheduleCreateRequest,
  type ScheduleInfo,
  SchedulesAPI,
  SchedulesAPI as SchedulesNamespace,
  type ScheduleUpdateOptions,
} from "./schedules.js";
export { ServerAPI } from "./server.js";
export {
  type SnapshotInfo,
  SnapshotsAPI,
  SnapshotsAPI as SnapshotsNamespace,
} from "./snapshots.js";
export type { ServerEvent } from "./sse.js";
export {
  type TemplateBuild,
  type TemplateBuildBase,
  type TemplateBuildOptions,
  type TemplateDockerfileBuildOptions,
  type TemplateInfo,
  TemplateNamespace,
  type TemplateRegisterOptions,
  type TemplateSnapshotBuildOptions,
} from "./templates.js";
export { Terminal, type TerminalOptions } from "./terminal.js";
export { type CallOptions, Transport } from "./transport.js";
export {
  AuditAPI,
  type AuditOptions,
  BillingAPI,
  MetricsAPI,
  type SeriesOptions,
  UsageAPI,
  type UsageOptions,
} from "./usage.js";
export { VERSION } from "./version.js";
export {
  Volume,
  type VolumeCreateOptions,
  type VolumeInfo,
  type VolumeMount,
  VolumesAPI,
  VolumesAPI as VolumesNamespace,
} from "./volumes.js";
export {
  verifyWebhook,
  type WebhookEvent,
  type WebhookHeaders,
  type WebhookOptions,
  WebhooksAPI,
} from "./webhooks.js";
