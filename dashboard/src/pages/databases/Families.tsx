import { useMemo } from "react";
import type { DatabaseInfo } from "@/data/databases";
import { LineagePicture } from "../database/lineage/LineagePicture";
import { lineageOf, rootsOf } from "../database/lineage/lineage";

/** All databases of the workspace as a picture: who came from whom. */
export default function Families({ databases }: { databases: readonly DatabaseInfo[] }) {
  const nodes = useMemo(() => lineageOf(databases), [databases]);
  const roots = useMemo(() => rootsOf(nodes), [nodes]);
  return <LineagePicture label="All databases" nodes={nodes} roots={roots} />;
}
