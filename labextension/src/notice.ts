/**
 * Tells of something that is out of sight, for as long as it is.
 */
import { Notification } from '@jupyterlab/apputils';
import type { IDisposable } from '@lumino/disposable';

export class Notice implements IDisposable {
  /**
   * @param node - What is to be seen.
   * @param message - What is said where it is not.
   * @param go - Goes there.
   */
  constructor(
    node: HTMLElement,
    private readonly message: string,
    private readonly go: () => void
  ) {
    this.observer = new IntersectionObserver(entries => {
      if (entries.at(-1)?.isIntersecting === true) {
        this.take();
      } else {
        this.say();
      }
    });
    this.observer.observe(node);
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    this._isDisposed = true;
    this.observer.disconnect();
    this.take();
  }

  private say(): void {
    this.id ??= Notification.warning(this.message, {
      autoClose: false,
      actions: [{ label: 'Go there', callback: this.go }]
    });
  }

  private take(): void {
    if (this.id !== null) {
      Notification.dismiss(this.id);
      this.id = null;
    }
  }

  private id: string | null = null;
  private _isDisposed = false;
  private readonly observer: IntersectionObserver;
}
