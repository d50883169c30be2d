/** The components of the dashboard. See README.md. */

export { Badge, buildState, StateBadge, StateDot, stateLook, type Tone } from "./Badge";
export { Button, type ButtonProps, buttonClass, IconButton, type IconButtonProps } from "./Button";
export { Chart, type ChartProps, type ChartSeries } from "./Chart";
export { CodeBlock, type SnippetSet, Snippets } from "./Code";
export { CopyId, CopyText, copyText, useCopied } from "./Copy";
export { cx } from "./cx";
export { ConfirmDialog, type ConfirmDialogProps, Dialog, type DialogProps } from "./Dialog";
export { errorParts } from "./errors";
export {
  ErrorFacts,
  ErrorNote,
  Loading,
  Note,
  Skeleton,
  SkeletonRows,
  Spinner,
} from "./Feedback";
export { Field, type FieldProps } from "./Field";
export { Checkbox, Input, SearchInput, Select, Switch, TextArea } from "./Input";
export { Kbd } from "./Kbd";
export { lazyPart, loadPart, PartMissingError } from "./lazy";
export { Menu, MenuChoice, MenuItem, MenuLabel, MenuSeparator } from "./Menu";
export { Card, EmptyState, Meter, PageBody, PageHeader, Stat } from "./Page";
export { RelativeTime, useTimeText } from "./RelativeTime";
export { type Column, RowLink, Table, type TableProps } from "./Table";
export { Segmented, type TabItem, Tabs } from "./Tabs";
export { Toaster } from "./Toaster";
export { Tooltip, TooltipProvider } from "./Tooltip";
export { toast } from "./toast";
export { useHotkey } from "./useHotkey";
