import { createContext } from "react";

/** Where menus and tooltips are put: inside the open dialog, because everything else is inert. */
export const PortalRoot = createContext<HTMLElement | null>(null);
