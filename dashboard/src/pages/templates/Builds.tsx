import type { TemplateBuild } from "@pandastack/sdk";
import { duration } from "@/data/format";
import { buildState, Card, type Column, CopyId, RelativeTime, StateBadge, Table } from "@/ui";

const COLUMNS: readonly Column<TemplateBuild>[] = [
  {
    id: "name",
    header: "Template",
    width: "minmax(110px, 1.2fr)",
    sort: (row) => row.name,
    cell: (row) => row.name,
  },
  {
    id: "status",
    header: "State",
    width: "minmax(90px, 0.8fr)",
    sort: (row) => row.status,
    cell: (row) => <StateBadge state={buildState(row.status)} title={row.error} />,
  },
  {
    id: "error",
    header: "Result",
    width: "minmax(120px, 2fr)",
    from: 720,
    cell: (row) => <span className="text-muted">{row.error ?? ""}</span>,
  },
  {
    id: "took",
    header: "Took",
    width: "96px",
    align: "end",
    from: 480,
    cell: (row) =>
      row.ended_at ? duration((Date.parse(row.ended_at) - Date.parse(row.started_at)) / 1000) : "–",
  },
  {
    id: "started",
    header: "Started",
    width: "96px",
    align: "end",
    sort: (row) => row.started_at,
    cell: (row) => <RelativeTime at={row.started_at} />,
  },
  {
    id: "id",
    header: "Build",
    width: "110px",
    from: 600,
    align: "end",
    cell: (row) => <CopyId id={row.id} />,
  },
];

/** The builds of this workspace, newest first. */
export function Builds(props: { builds: readonly TemplateBuild[]; onOpen: (id: string) => void }) {
  return (
    <Card title="Builds" flush>
      <Table
        label="Builds"
        rows={props.builds}
        rowId={({ id }) => id}
        columns={COLUMNS}
        onOpen={({ id }) => props.onOpen(id)}
      />
    </Card>
  );
}
