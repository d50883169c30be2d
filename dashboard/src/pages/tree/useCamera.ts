import { type RefObject, useCallback, useEffect, useLayoutEffect, useRef, useState } from "react";
import { type Camera, cameraFor, type PlacedTree, zoomAt } from "./layout";

const WHEEL_ZOOM = 0.0022;
const CLICK_PX = 4;

export interface CameraControl {
  readonly camera: Camera;
  /** The size of the box. */
  readonly size: { readonly width: number; readonly height: number };
  readonly setCamera: (change: (camera: Camera) => Camera) => void;
  /** Shows everything, and keeps doing so while the picture grows, until somebody moves it. */
  readonly showAll: () => void;
  readonly zoomBy: (factor: number) => void;
  /** Whether the last pointer moved the picture, so that its click means nothing. */
  readonly wasDrag: () => boolean;
}

/** Pan and zoom by wheel, mouse, fingers and pen. */
export function useCamera(box: RefObject<HTMLElement | null>, tree: PlacedTree): CameraControl {
  const [camera, setState] = useState<Camera>({ x: 32, y: 32, zoom: 1 });
  const [size, setSize] = useState({ width: 0, height: 0 });
  const isFree = useRef(false);
  const moved = useRef(false);
  const latest = useRef(tree);
  latest.current = tree;

  const setCamera = useCallback((change: (camera: Camera) => Camera) => {
    isFree.current = true;
    setState(change);
  }, []);
  const fitNow = useCallback(() => {
    const element = box.current;
    if (element) setState(cameraFor(latest.current, element.clientWidth, element.clientHeight));
  }, [box]);
  const showAll = useCallback(() => {
    isFree.current = false;
    fitNow();
  }, [fitNow]);
  const zoomBy = useCallback(
    (factor: number) => {
      const { clientWidth = 0, clientHeight = 0 } = box.current ?? {};
      setCamera((old) => zoomAt(old, factor, clientWidth / 2, clientHeight / 2));
    },
    [box, setCamera],
  );

  // biome-ignore lint/correctness/useExhaustiveDependencies: a new shape is fitted
  useLayoutEffect(() => {
    if (!isFree.current) fitNow();
  }, [tree.width, tree.height, tree.nodes.length]);

  useEffect(() => {
    const element = box.current;
    if (element === null) return;
    const observer = new ResizeObserver(() => {
      setSize({ width: element.clientWidth, height: element.clientHeight });
      if (!isFree.current) fitNow();
    });
    observer.observe(element);
    const stop = followPointers(element, setCamera, (value) => {
      moved.current = value;
    });
    return () => {
      observer.disconnect();
      stop();
    };
  }, [box, fitNow, setCamera]);

  return { camera, size, setCamera, showAll, zoomBy, wasDrag: () => moved.current };
}

function followPointers(
  element: HTMLElement,
  setCamera: (change: (camera: Camera) => Camera) => void,
  setMoved: (moved: boolean) => void,
): () => void {
  const pointers = new Map<number, { x: number; y: number }>();
  let travelled = 0;
  const place = (event: MouseEvent): { x: number; y: number } => {
    const { left, top } = element.getBoundingClientRect();
    return { x: event.clientX - left, y: event.clientY - top };
  };
  const onDown = (event: PointerEvent): void => {
    if (event.button !== 0 || (event.target as Element).closest("button, a, [role=menu]")) return;
    travelled = 0;
    setMoved(false);
    pointers.set(event.pointerId, place(event));
  };
  const onMove = (event: PointerEvent): void => {
    const before = pointers.get(event.pointerId);
    if (before === undefined) return;
    const now = place(event);
    const other = [...pointers].find(([id]) => id !== event.pointerId)?.[1];
    pointers.set(event.pointerId, now);
    travelled += Math.hypot(now.x - before.x, now.y - before.y);
    if (travelled < CLICK_PX) return;
    setMoved(true);
    if (other === undefined) {
      // Captured only now: a captured click would not reach the node below.
      if (!element.hasPointerCapture(event.pointerId)) element.setPointerCapture(event.pointerId);
      setCamera((old) => ({ ...old, x: old.x + now.x - before.x, y: old.y + now.y - before.y }));
      return;
    }
    const was = Math.hypot(before.x - other.x, before.y - other.y);
    const is = Math.hypot(now.x - other.x, now.y - other.y);
    const middle = { x: (now.x + other.x) / 2, y: (now.y + other.y) / 2 };
    if (was > 0) setCamera((old) => zoomAt(old, is / was, middle.x, middle.y));
  };
  const onUp = (event: PointerEvent): void => {
    pointers.delete(event.pointerId);
  };
  const onWheel = (event: WheelEvent): void => {
    event.preventDefault();
    const { x, y } = place(event);
    const scale = event.deltaMode === 1 ? 16 : 1;
    if (event.ctrlKey || event.metaKey) {
      const factor = Math.exp(-event.deltaY * scale * WHEEL_ZOOM * (event.ctrlKey ? 4 : 1));
      setCamera((old) => zoomAt(old, factor, x, y));
    } else {
      const [dx, dy] = event.shiftKey ? [event.deltaY, 0] : [event.deltaX, event.deltaY];
      setCamera((old) => ({ ...old, x: old.x - dx * scale, y: old.y - dy * scale }));
    }
  };
  element.addEventListener("pointerdown", onDown);
  element.addEventListener("pointermove", onMove);
  element.addEventListener("pointerup", onUp);
  element.addEventListener("pointercancel", onUp);
  element.addEventListener("wheel", onWheel, { passive: false });
  return () => {
    element.removeEventListener("pointerdown", onDown);
    element.removeEventListener("pointermove", onMove);
    element.removeEventListener("pointerup", onUp);
    element.removeEventListener("pointercancel", onUp);
    element.removeEventListener("wheel", onWheel);
  };
}
