export interface BundledPackage {
  readonly name: string;
  readonly version: string;
  readonly license: string;
  readonly text: string;
}
export function packages(): BundledPackage[];
export function refused(all: readonly BundledPackage[]): BundledPackage[];
export function licencesText(all: readonly BundledPackage[]): string;
