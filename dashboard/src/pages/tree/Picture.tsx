import { Maximize, Minus, Plus } from "lucide-react";
import {
  type KeyboardEvent,
  type ReactNode,
  type RefObject,
  useEffect,
  useMemo,
  useRef,
} from "react";
import { relativeTime } from "@/data/format";
import { cx, IconButton, stateLook } from "@/ui";
import {
  linkPath,
  NODE_HEIGHT,
  NODE_WIDTH,
  neighbour,
  type PlacedTree,
  reveal,
  visibleNodes,
} from "./layout";
import { StateMark } from "./StateMark";
import { useCamera } from "./useCamera";

const SEQUENCE_MS = 1_000;
const PAN_PX = 80;
const PAN_STEPS: Record<string, readonly [number, number]> = {
  ArrowLeft: [PAN_PX, 0],
  ArrowRight: [-PAN_PX, 0],
  ArrowUp: [0, PAN_PX],
  ArrowDown: [0, -PAN_PX],
};

/** What a picture shows of a node. */
export interface PictureNode {
  readonly id: string;
  readonly name: string;
  readonly status: string;
  readonly createdAt: string | undefined;
  /** Absent for one that is gone. */
  readonly info: unknown;
  /** What it takes and costs. */
  readonly cost?: string | undefined;
  /** How it came from its parent. A clone has a dotted line, and says so. */
  readonly origin?: "branch" | "clone" | undefined;
}

export interface PictureProps {
  label: string;
  tree: PlacedTree;
  nodes: ReadonlyMap<string, PictureNode>;
  selected: string | undefined;
  onSelect: (id: string) => void;
  /** Asks for the actions of a node; the place is on the screen. Without it Enter is a key as others. */
  onMenu?: (id: string, at: { x: number; y: number }) => void;
  /** A key on a node, `o` to open it. Returns whether it meant something. */
  onKey: (id: string, key: string) => boolean;
  /** The other node of a comparison. */
  compared?: string | undefined;
  /** While the second node of a comparison is chosen. */
  choosing?: boolean;
  children?: ReactNode;
}

/** A fork tree as a picture. For assistive technology it is a tree of items. */
export function Picture(props: PictureProps) {
  const { label, tree, nodes, selected, onMenu, onKey, compared, choosing = false } = props;
  const box = useRef<HTMLDivElement>(null);
  const view = useCamera(box, tree);
  const { camera, size, showAll, zoomBy, wasDrag } = view;
  const placed = useMemo(() => new Map(tree.nodes.map((node) => [node.id, node])), [tree]);
  const current = selected !== undefined && placed.has(selected) ? selected : tree.nodes[0]?.id;
  const drawn = visibleNodes(tree, camera, size.width, size.height);
  const tabStop = drawn.some(({ id }) => id === current) ? current : drawn[0]?.id;
  const { choose, menuAt } = useChoice(props, { box, view, placed, current });
  const onKeyDown = useKeys((event) => {
    const { key } = event;
    const next = current === undefined ? undefined : neighbour(tree, current, key)?.id;
    const wantsMenu = key === "Enter" || key === "ContextMenu" || (key === "F10" && event.shiftKey);
    const move = cameraAction(event, view);
    if (move !== undefined) move();
    else if (wantsMenu && onMenu && current !== undefined) menuAt(current);
    else if (next !== undefined) choose(next);
    else return current !== undefined && onKey(current, key);
    return true;
  });
  return (
    <div
      ref={box}
      data-zoom={camera.zoom.toFixed(2)}
      className={cx(
        "relative h-full min-h-0 min-w-0 flex-1 touch-none overflow-hidden bg-sunken select-none",
        choosing ? "cursor-crosshair" : "cursor-grab active:cursor-grabbing",
      )}
    >
      {/* biome-ignore lint/a11y/noStaticElementInteractions: the keys are of the tree inside */}
      <svg width="100%" height="100%" role="presentation" onKeyDown={onKeyDown} className="block">
        <g transform={`translate(${camera.x} ${camera.y}) scale(${camera.zoom})`}>
          <Links drawn={drawn} placed={placed} nodes={nodes} />
          <g role="tree" aria-label={label}>
            {drawn.map((place) => {
              const { id } = place;
              const node = nodes.get(id);
              if (node === undefined) return null;
              return (
                <TreeItem
                  key={id}
                  node={node}
                  place={place}
                  isTabStop={id === tabStop}
                  isSelected={id === selected}
                  isCompared={id === compared}
                  onChoose={() => {
                    if (!wasDrag()) choose(id);
                  }}
                  onOpen={() => onKey(id, "o")}
                  onMenu={
                    onMenu &&
                    ((at) => {
                      choose(id);
                      onMenu(id, at);
                    })
                  }
                />
              );
            })}
          </g>
        </g>
      </svg>
      <ZoomButtons zoomBy={zoomBy} showAll={showAll} />
      {props.children}
    </div>
  );
}

interface Scene {
  readonly box: RefObject<HTMLDivElement | null>;
  readonly view: ReturnType<typeof useCamera>;
  readonly placed: ReadonlyMap<string, Place>;
  readonly current: string | undefined;
}

/** Chooses a node so that it is seen and has the focus, and asks for its menu below it. */
function useChoice(
  { onSelect, onMenu }: Pick<PictureProps, "onSelect" | "onMenu">,
  { box, view, placed, current }: Scene,
) {
  const { camera, setCamera } = view;
  const wantsFocus = useRef(false);

  useEffect(() => {
    if (!wantsFocus.current || current === undefined) return;
    wantsFocus.current = false;
    box.current
      ?.querySelector<SVGElement>(`[data-node="${CSS.escape(current)}"]`)
      ?.focus({ preventScroll: true });
  }, [current, box]);

  const choose = (id: string): void => {
    const node = placed.get(id);
    const element = box.current;
    if (node && element) {
      const { clientWidth, clientHeight } = element;
      const next = reveal(camera, node, clientWidth, clientHeight);
      if (next.x !== camera.x || next.y !== camera.y) setCamera(() => next);
    }
    wantsFocus.current = true;
    onSelect(id);
  };
  const menuAt = (id: string): void => {
    const node = placed.get(id);
    const rect = box.current?.getBoundingClientRect();
    if (!node || !rect) return;
    onMenu?.(id, {
      x: rect.left + camera.x + (node.x + NODE_WIDTH - 16) * camera.zoom,
      y: rect.top + camera.y + (node.y + NODE_HEIGHT) * camera.zoom,
    });
  };
  return { choose, menuAt };
}

/** Hands keys over that are not for the page. `act` tells whether a key meant something. */
function useKeys(act: (event: KeyboardEvent) => boolean): (event: KeyboardEvent) => void {
  const sequenceAt = useRef(0);
  return (event) => {
    const { key } = event;
    // `g` starts a shortcut of the page, such as `g f`. Its second key is not for the node.
    const isSecond = Date.now() - sequenceAt.current < SEQUENCE_MS;
    sequenceAt.current = key === "g" ? Date.now() : 0;
    if (key === "g" || isSecond) return;
    if (event.altKey || event.metaKey || (event.ctrlKey && key !== "Home")) return;
    if (!act(event)) return;
    event.preventDefault();
    event.stopPropagation();
  };
}

/** What a key does to the view. */
function cameraAction(
  { key, shiftKey }: KeyboardEvent,
  { setCamera, zoomBy, showAll }: ReturnType<typeof useCamera>,
): (() => void) | undefined {
  const [dx, dy] = PAN_STEPS[key] ?? [0, 0];
  if (shiftKey && (dx !== 0 || dy !== 0)) {
    return () => setCamera((old) => ({ ...old, x: old.x + dx, y: old.y + dy }));
  }
  if (key === "+" || key === "=") return () => zoomBy(1.25);
  if (key === "-") return () => zoomBy(0.8);
  return key === "0" ? showAll : undefined;
}

type Place = PlacedTree["nodes"][number];

/** The lines from parents to their forks. */
function Links(props: {
  drawn: readonly Place[];
  placed: ReadonlyMap<string, Place>;
  nodes: ReadonlyMap<string, PictureNode>;
}) {
  const { drawn, placed, nodes } = props;
  return (
    <g className="fill-none stroke-line-strong" strokeWidth={1.5}>
      {drawn.map((node) => {
        const parent = node.parentId === undefined ? undefined : placed.get(node.parentId);
        if (parent === undefined) return null;
        const isGone = nodes.get(parent.id)?.status === "deleted";
        const isClone = nodes.get(node.id)?.origin === "clone";
        return (
          <path
            key={node.id}
            d={linkPath(parent, node)}
            strokeLinecap="round"
            strokeDasharray={isClone ? "0.1 5" : isGone ? "4 4" : undefined}
            strokeWidth={isClone ? 2 : undefined}
            opacity={isClone ? 1 : 0.6}
          />
        );
      })}
    </g>
  );
}

function TreeItem(props: {
  node: PictureNode;
  place: Place;
  isTabStop: boolean;
  isSelected: boolean;
  isCompared: boolean;
  onChoose: () => void;
  onOpen: () => void;
  onMenu: ((at: { x: number; y: number }) => void) | undefined;
}) {
  const { node, place, isTabStop, isSelected, isCompared, onChoose, onOpen, onMenu } = props;
  return (
    <g
      role="treeitem"
      tabIndex={isTabStop ? 0 : -1}
      aria-level={place.level}
      aria-posinset={place.position}
      aria-setsize={place.siblings}
      aria-selected={isSelected}
      data-node={node.id}
      data-state-name={node.status}
      transform={`translate(${place.x} ${place.y})`}
      className="group cursor-pointer outline-none"
      onClick={onChoose}
      onDoubleClick={onOpen}
      onContextMenu={(event) => {
        if (onMenu === undefined) return;
        event.preventDefault();
        onMenu({ x: event.clientX, y: event.clientY });
      }}
    >
      <NodeCard node={node} isSelected={isSelected} isCompared={isCompared} />
    </g>
  );
}

function ZoomButtons(props: { zoomBy: (factor: number) => void; showAll: () => void }) {
  const { zoomBy, showAll } = props;
  return (
    <div className="absolute right-3 bottom-3 flex flex-col rounded-md border border-line bg-panel shadow-sm">
      <IconButton
        label="Zoom in"
        shortcut="+"
        icon={<Plus size={16} />}
        onClick={() => zoomBy(1.25)}
      />
      <IconButton
        label="Zoom out"
        shortcut="-"
        icon={<Minus size={16} />}
        onClick={() => zoomBy(0.8)}
      />
      <IconButton label="Show all" shortcut="0" icon={<Maximize size={16} />} onClick={showAll} />
    </div>
  );
}

function NodeCard({
  node,
  isSelected,
  isCompared,
}: {
  node: PictureNode;
  isSelected: boolean;
  isCompared: boolean;
}) {
  const isGone = node.info === undefined;
  const age = relativeTime(node.createdAt, Date.now());
  const firstLine = node.cost === undefined ? 28 : 20;
  const facts = [
    stateLook(node.status).label,
    ...(node.origin === "clone" ? ["clone"] : []),
    // Three facts need room.
    ...(age === "never" ? [] : [node.origin === "clone" ? age.replace(" ago", "") : age]),
  ];
  return (
    <>
      <rect
        width={NODE_WIDTH}
        height={NODE_HEIGHT}
        rx={8}
        strokeWidth={isSelected || isCompared ? 2 : 1}
        strokeDasharray={isGone ? "4 3" : undefined}
        className={cx(
          "transition-[stroke]",
          isGone ? "fill-sunken" : "fill-panel",
          isCompared
            ? "stroke-info"
            : isSelected
              ? "stroke-accent"
              : "stroke-line group-hover:stroke-line-strong",
        )}
      />
      <rect
        x={-4}
        y={-4}
        width={NODE_WIDTH + 8}
        height={NODE_HEIGHT + 8}
        rx={11}
        strokeWidth={2}
        className="fill-none stroke-accent opacity-0 group-focus-visible:opacity-100"
      />
      <g transform={`translate(18 ${NODE_HEIGHT / 2})`}>
        <StateMark state={node.status} />
      </g>
      {/* One text, so that its parts are words of the name that is read out. */}
      <text>
        <tspan
          x={34}
          y={firstLine}
          className={cx("text-[13px] font-medium", isGone ? "fill-muted" : "fill-ink")}
        >
          {cut(node.name, 19)}
        </tspan>{" "}
        <tspan x={34} y={firstLine + 16} className="fill-muted text-[11px]">
          {cut(facts.join(" · "), 26)}
        </tspan>{" "}
        {node.cost !== undefined && (
          <tspan x={34} y={firstLine + 32} className="fill-muted text-[11px]">
            {cut(node.cost, 26)}
          </tspan>
        )}
      </text>
    </>
  );
}

function cut(text: string, max: number): string {
  return text.length <= max ? text : `${text.slice(0, max - 1)}…`;
}
